"""Initializers: fans, distributions, stable bytes, names and mistakes."""

from __future__ import annotations

import hashlib
import math
import pickle
import time
from collections.abc import Callable
from statistics import NormalDist

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralsym.errors import BadAttribute, NeuralsymError, ShapeMismatch
from neuralsym.layers import initializers
from neuralsym.layers.initializers import (
    NAMES,
    Constant,
    Custom,
    Initializer,
    VarianceScaling,
    fans,
    get,
)

SHAPE = (32, 3, 3, 3)
KEY = (7, "stem/kernel")


def digest(array: np.ndarray) -> str:
    little = array.astype(array.dtype.newbyteorder("<"))
    return hashlib.sha256(little.tobytes()).hexdigest()


# fans


@pytest.mark.parametrize(
    ("kind", "shape", "groups", "expected"),
    [
        ("conv", (32, 3, 3, 3), 1, (27, 288)),
        ("conv", (64, 16, 5), 1, (80, 320)),
        ("conv", (8, 4, 3, 3, 3), 1, (108, 216)),
        ("conv", (64, 16, 3, 3), 4, (144, 144)),
        ("conv", (32, 1, 3, 3), 32, (9, 9)),  # depthwise
        ("conv", (64, 1, 3, 3), 32, (9, 18)),  # depthwise, multiplier 2
        ("conv_transpose", (3, 32, 3, 3), 1, (27, 288)),
        ("conv_transpose", (16, 8, 2, 2), 2, (32, 32)),
        ("dense", (784, 10), 1, (784, 10)),
        ("dense_transposed", (10, 784), 1, (784, 10)),
        ("embedding", (1000, 64), 1, (1000, 64)),
        ("recurrent", (2, 4 * 16, 8), 1, (8, 64)),
        ("vector", (5,), 1, (5, 5)),
    ],
)
def test_fans(kind: str, shape: tuple[int, ...], groups: int, expected: tuple[int, int]) -> None:
    assert fans(shape, kind, groups) == expected


@pytest.mark.parametrize(
    ("kind", "shape", "groups", "error", "words"),
    [
        ("conv", (3, 4), 1, ShapeMismatch, "3 or more"),
        ("dense", (3, 4, 5), 1, ShapeMismatch, "2 axes"),
        ("dens", (3, 4), 1, BadAttribute, "'dense'"),
        ("conv", (10, 4, 3, 3), 3, BadAttribute, "3 groups"),
        ("dense", (4, 4), 2, BadAttribute, "no groups"),
    ],
)
def test_fans_of_what_does_not_fit(
    kind: str, shape: tuple[int, ...], groups: int, error: type[NeuralsymError], words: str
) -> None:
    with pytest.raises(error, match=words):
        fans(shape, kind, groups)


# distributions


def sample(init: Initializer) -> np.ndarray:
    return init.draw((200_000,), np.float64, key=(1, "sample"), fans=(27, 288))


def assert_follows(values: np.ndarray, distribution: Callable[[float], float]) -> None:
    """The share of values below each of 41 points, within four standard errors."""
    n = len(values)
    for point in np.linspace(values.min(), values.max(), 43)[1:-1]:
        p = min(1.0, max(0.0, distribution(point)))
        share = np.count_nonzero(values <= point) / n
        assert abs(share - p) <= 4 * math.sqrt(p * (1 - p) / n) + 1e-5, point


LIMITS = {
    "glorot_uniform": math.sqrt(6 / (27 + 288)),
    "he_uniform": math.sqrt(6 / 27),
    "lecun_uniform": math.sqrt(3 / 27),
    "standard": math.sqrt(1 / 27),
    "random_uniform": 0.05,
}


@pytest.mark.parametrize(("name", "limit"), LIMITS.items())
def test_uniform(name: str, limit: float) -> None:
    values = sample(get(name))
    assert np.abs(values).max() <= limit
    assert_follows(values, lambda x: (x / limit + 1) / 2)
    assert abs(values.mean()) < 4 * limit / math.sqrt(3 * len(values))


DEVIATIONS = {
    "random_normal": 0.05,
    "xavier_normal": math.sqrt(2 / (27 + 288)),
    "kaiming_normal": math.sqrt(2 / 27),
}


@pytest.mark.parametrize(("name", "deviation"), DEVIATIONS.items())
def test_normal(name: str, deviation: float) -> None:
    values = sample(get(name))
    assert_follows(values, NormalDist(0, deviation).cdf)
    assert np.abs(values).max() > 4 * deviation  # the tails are there


TRUNCATED = {
    "truncated_normal": (0.05, math.sqrt(0.7737413035)),  # of the standard one cut at 2
    "glorot_normal": (math.sqrt(2 / (27 + 288)), 1.0),
    "he_normal": (math.sqrt(2 / 27), 1.0),
    "lecun_normal": (math.sqrt(1 / 27), 1.0),
}


@pytest.mark.parametrize("name", TRUNCATED)
def test_truncated_normal(name: str) -> None:
    deviation, narrowed = TRUNCATED[name]
    values = sample(get(name))
    # a scaled one is widened to have its full deviation after the cut
    sigma = deviation if name == "truncated_normal" else deviation / 0.8796256610342398
    inside = NormalDist().cdf(2) - NormalDist().cdf(-2)
    assert np.abs(values).max() <= 2 * sigma
    assert_follows(values, lambda x: (NormalDist(0, sigma).cdf(x) - NormalDist().cdf(-2)) / inside)
    assert values.std() == pytest.approx(deviation * narrowed, rel=0.01)


def kolmogorov(a: np.ndarray, b: np.ndarray) -> float:
    """The largest distance between the shares of two samples below a point."""
    points = np.sort(np.concatenate([a, b]))
    below = [np.searchsorted(np.sort(v), points, "right") / len(v) for v in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


@pytest.mark.parametrize("name", [*LIMITS, *DEVIATIONS, *TRUNCATED])
def test_numpy_draws_alike(name: str) -> None:
    """No further apart than two samples of one distribution are, but once in a thousand times."""
    values, rng = sample(get(name)), np.random.default_rng(5)
    count = len(values)
    if name in LIMITS:
        other = rng.uniform(-LIMITS[name], LIMITS[name], count)
    elif name in DEVIATIONS:
        other = rng.normal(0, DEVIATIONS[name], count)
    else:
        standard = rng.standard_normal(count * 2)
        other = standard[np.abs(standard) < 2][:count] * TRUNCATED[name][0]
        other /= 1.0 if name == "truncated_normal" else 0.8796256610342398
    assert len(other) == count
    assert kolmogorov(values, other) < 1.95 * math.sqrt(2 / count)


@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg"])
@pytest.mark.parametrize("distribution", ["uniform", "truncated_normal", "untruncated_normal"])
def test_variance_scaling(mode: str, distribution: str) -> None:
    n = {"fan_in": 27, "fan_out": 288, "fan_avg": 157.5}[mode]
    values = sample(initializers.variance_scaling(3.0, mode, distribution))
    assert values.var() == pytest.approx(3 / n, rel=0.02)


@pytest.mark.parametrize("shape", [(64, 64), (96, 32), (32, 96), (16, 4, 3, 3), (2, 1), (1, 2)])
@pytest.mark.parametrize("gain", [1.0, 1.5])
def test_orthogonal(shape: tuple[int, ...], gain: float) -> None:
    value = initializers.orthogonal(gain).draw(shape, np.float64, key=KEY)
    matrix = value.reshape(shape[0], -1)
    product = matrix @ matrix.T if shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, gain**2 * np.eye(len(product)), atol=1e-13)


def test_identity() -> None:
    np.testing.assert_array_equal(
        initializers.identity(2.0).draw((2, 3), key=KEY), [[2, 0, 0], [0, 2, 0]]
    )
    kernel = initializers.identity.draw((3, 3, 3, 5), key=KEY)
    assert kernel.sum() == 3
    assert all(kernel[i, i, 1, 2] == 1 for i in range(3))


def test_constants() -> None:
    np.testing.assert_array_equal(initializers.zeros.draw((3,), key=KEY), [0, 0, 0])
    np.testing.assert_array_equal(initializers.ones.draw((), np.int64, key=KEY), 1)
    np.testing.assert_array_equal(initializers.constant(0.25).draw((2,), key=KEY), [0.25] * 2)


def test_custom() -> None:
    ramp = get(lambda shape: np.arange(math.prod(shape)).reshape(shape))
    np.testing.assert_array_equal(ramp.draw((2, 2), key=KEY), [[0, 1], [2, 3]])
    with pytest.raises(ShapeMismatch, match=r"gave shape \[3\]; expected \[2, 2\]"):
        get(lambda shape: np.zeros(3)).draw((2, 2), key=KEY)


# the same bytes, everywhere and always: a change here changes every network made with a seed

GOLDEN = {
    "zeros": "0ee0c7ac0933cd2c9de481994bf578c44ac305c8b99c0baf4b95701bb50c9476",
    "ones": "63215b89d94aeea12cd1fd4e2fe017446dce95dad00b89ab7f2d5abb4e5f2efe",
    "constant": "0ee0c7ac0933cd2c9de481994bf578c44ac305c8b99c0baf4b95701bb50c9476",
    "identity": "d779922c68f1a40be00552679c7d891dc734598be0dcc81b74e9991f36669944",
    "random_uniform": "e8660cba78fc04ff7d5df21606efeba5ae39cf49c81ec9852586951e692a8e13",
    "random_normal": "3bff0f8434828694f586fd8848228eb2166779324ec21c2358e6525769a973c3",
    "truncated_normal": "bd3a58ee97889484e1058459a03526876c9e222ec0fd1a14e4673382f948846a",
    "orthogonal": "2b0b2cedf5a793cabfc4aaab1cff6bf472eeadd7b07b7f98cd400870fd840574",
    "variance_scaling": "2d763fa06d125eb9303bdd02fd8f911eef3c508a0abdfd87edd1d4baed119feb",
    "glorot_uniform": "c5296ca7bbde987662ee08a23afea9be28ff4ce8bc6121ad372779b29cc35d51",
    "glorot_normal": "c9583a59f3bd40d886188de1fdb78154132acd34b0be62c6c18cdbe8cd51ea9b",
    "he_uniform": "0e563b541800a77fca97c78d38ab8ea75e1dd02748d827049f751005bd832eb9",
    "he_normal": "0e3f7d61e48a4ac62a970b31694a7783dd9f926ada3caf4faf156ed654d66056",
    "lecun_uniform": "5e8a2ad854ae5bade5e96e0a1ba56dd9f3899c79ac6ce2c69740ff7f66eb914a",
    "lecun_normal": "2d763fa06d125eb9303bdd02fd8f911eef3c508a0abdfd87edd1d4baed119feb",
    "xavier_uniform": "c5296ca7bbde987662ee08a23afea9be28ff4ce8bc6121ad372779b29cc35d51",
    "xavier_normal": "502f8dc60c65b4b1a9f92e4f0ca686c3c121ce697d1cd50112861230f080c6e3",
    "kaiming_uniform": "0e563b541800a77fca97c78d38ab8ea75e1dd02748d827049f751005bd832eb9",
    "kaiming_normal": "9aa8799a978fd0af713ec189fafb34edf0c92a4cbc26cf133ee22a31a10d1d10",
    "uniform": "e9a0371af357a02fe33c79c38aa86b7880ccbbb811ebbd220d28320f50b4fbec",
    "normal": "bb0fc002e8b08d42a7cc80a5744bacef34efdab7ba476a1c6e3c0588538059bf",
    "trunc_normal": "7955f9111ae619675e7b55a66224013c4756f688f386af0161154863afef3f90",
    "eye": "d779922c68f1a40be00552679c7d891dc734598be0dcc81b74e9991f36669944",
    "dirac": "d779922c68f1a40be00552679c7d891dc734598be0dcc81b74e9991f36669944",
    "standard": "a9d5ec73efe6bab3d8f228220a050452b9fb10530864406625b302678982a3b3",
    "tanh": "c5296ca7bbde987662ee08a23afea9be28ff4ce8bc6121ad372779b29cc35d51",
    "gaussian": "3bff0f8434828694f586fd8848228eb2166779324ec21c2358e6525769a973c3",
}


@pytest.mark.parametrize("name", NAMES)
def test_bytes_never_change(name: str) -> None:
    value = NAMES[name].draw(SHAPE, key=KEY, fans=fans(SHAPE, "conv"))
    assert value.dtype == np.float32
    assert digest(value) == GOLDEN[name]


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        (
            "glorot_uniform",
            (70_001,),
            "10933160b6bf0d935b655ae77103009bbe105ac304e74df6a87b3d3133542c7f",
        ),
        (
            "he_normal",
            (70_001,),
            "6e34a4a40ecd9782fadc83d688ee6c0d2bc5cde519ade39e9668d3f10684a778",
        ),
        (
            "kaiming_normal",
            (70_001,),
            "4acf42e76a0f2aedab4505e07cec3709bb3f62e7b5a2e0c7375aed39e5fe34f4",
        ),
        (
            "orthogonal",
            (40, 90),
            "47b8c6312021ed9988152d2e1421d7bd99efbafb737748dcc827db32412f5788",
        ),
    ],
)
def test_bytes_of_float64_never_change(name: str, shape: tuple[int, ...], expected: str) -> None:
    value = NAMES[name].draw(shape, np.float64, key=KEY, fans=(27, 288))
    assert digest(value) == expected


def test_a_weight_is_its_own_whatever_was_drawn_before() -> None:
    alone = initializers.he_normal.draw((50,), key=(0, "b"), fans=(5, 5))
    initializers.he_normal.draw((1000,), key=(0, "a"), fans=(5, 5))
    np.random.default_rng(0).normal()
    np.testing.assert_array_equal(
        alone, initializers.he_normal.draw((50,), key=(0, "b"), fans=(5, 5))
    )


def test_seeds_and_names_give_unrelated_values() -> None:
    keys = [(0, "a"), (1, "a"), (0, "b"), (0, "a/kernel"), (-1, "a")]
    drawn = np.stack([initializers.random_normal.draw((5000,), key=k) for k in keys])
    correlation = np.corrcoef(drawn) - np.eye(len(keys))
    assert np.abs(correlation).max() < 4 / math.sqrt(5000)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_a_narrower_type_is_the_same_value_rounded(dtype: type) -> None:
    wide = initializers.glorot_normal.draw((1000,), np.float64, key=KEY, fans=(3, 4))
    narrow = initializers.glorot_normal.draw((1000,), dtype, key=KEY, fans=(3, 4))
    assert narrow.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(narrow, wide.astype(dtype))


@pytest.mark.slow
def test_twenty_five_million_values_take_little_time() -> None:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        initializers.glorot_uniform.draw((5000, 5000), key=KEY, fans=(5000, 5000))
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1.5


# what users write


@pytest.mark.parametrize("init", NAMES.values())
def test_initializers_are_values(init: Initializer) -> None:
    assert get(init) is init
    assert {init: 1}[pickle.loads(pickle.dumps(init))] == 1
    assert init() == init


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("GlorotUniform", "glorot_uniform"),
        ("xavier_uniform_", "xavier_uniform"),
        ("HeNormal", "he_normal"),
        ("Standard", "standard"),
        ("Tanh", "tanh"),
        ("zeros_", "zeros"),
    ],
)
def test_spellings_of_other_libraries(spelling: str, name: str) -> None:
    assert get(spelling) == NAMES[name]


def test_settings_are_given_by_calling() -> None:
    assert initializers.random_uniform(-1, 1).draw((100,), key=KEY).min() < -0.5
    assert initializers.xavier_uniform(2.0) == VarianceScaling(4.0, "fan_avg", "uniform")
    assert initializers.kaiming_normal(mode="fan_out").mode == "fan_out"
    assert get(0.5) == Constant(0.5)
    assert get(1) == initializers.ones
    assert isinstance(get(np.zeros), Custom)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: get("glorot_unifrm"), "did you mean 'glorot_uniform'"),
        (lambda: get(None), "a name, a number"),
        (lambda: get(True), "a name, a number"),
        (lambda: initializers.random_uniform(1, 0), "minval"),
        (lambda: initializers.random_normal(0, -1), "stddev"),
        (lambda: initializers.variance_scaling(0), "scale"),
        (lambda: initializers.variance_scaling(mode="fan"), "'fan' is none of fan_in"),
        (lambda: initializers.he_normal.draw((2, 2), key=KEY), "'stem/kernel'"),
        (lambda: initializers.random_normal.draw((2,), np.int32, key=KEY), "int32"),
        (lambda: initializers.random_normal.draw((2,), ml_dtypes.int4, key=KEY), "int4"),
        (lambda: initializers.random_normal.draw((2,), np.complex64, key=KEY), "complex64"),
        (lambda: initializers.constant(0.5).draw((2,), np.int32, key=KEY), "int32"),
    ],
)
def test_mistakes(make: Callable[[], object], words: str) -> None:
    with pytest.raises(BadAttribute, match=words):
        make()


@pytest.mark.parametrize("init", [initializers.orthogonal, initializers.identity])
def test_matrices_need_two_axes(init: Initializer) -> None:
    with pytest.raises(ShapeMismatch, match="two axes"):
        init.draw((3,), key=KEY)


def test_a_mistake_names_the_users_line() -> None:
    with pytest.raises(BadAttribute, match=r"test_initializers\.py:\d"):
        get("nonesuch")


@given(
    st.sampled_from(sorted(NAMES)),
    st.lists(st.integers(0, 5), min_size=2, max_size=4),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_any_shape_is_filled(name: str, shape: list[int], dtype: type) -> None:
    value = NAMES[name].draw(shape, dtype, key=(0, name), fans=(2, 3))
    assert value.shape == tuple(shape)
    assert np.isfinite(value).all()
