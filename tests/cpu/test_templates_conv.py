"""Convolution kernels against float64 sums, over shapes, widths, halos, workers and epilogues."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_text import MACHINES, call, fill, inner, plane_buffer, read, view

from neuralsym.cpu.templates.conv import conv_text
from neuralsym.cpu.templates.conv_plan import (
    ConvAddresses,
    ConvShape,
    can_convolve,
    conv_tables,
    conv_words,
    pack_conv_bias,
    pack_conv_weights,
    plan_conv,
)
from neuralsym.cpu.templates.depthwise import (
    is_depthwise,
    pack_depthwise_weights,
    plan_depthwise,
)
from neuralsym.cpu.templates.epilogue import Activation, clip, identity, leaky_relu, relu
from neuralsym.cpu.templates.layout import Plane

EPS = np.finfo(np.float32).eps


def reference(shape, x, weights):
    """The convolution in the precision of x, and the sum of its terms' magnitudes."""
    pads = [(0, 0), (0, 0), *zip(shape.before, shape.after, strict=True)]
    padded = np.pad(x, pads)
    out = shape.output(x.shape[2:])
    each_in, each_out = shape.channels // shape.groups, shape.outputs // shape.groups
    total = np.zeros((x.shape[0], shape.outputs, *out))
    size = np.zeros_like(total)
    for tap in np.ndindex(*shape.kernel):
        index = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, shape.dilations, out, shape.strides, strict=True)
        )
        part = padded[(slice(None), slice(None), *index)]
        for g in range(shape.groups):
            w = weights[(slice(g * each_out, (g + 1) * each_out), slice(None), *tap)]
            p = part[:, g * each_in : (g + 1) * each_in]
            total[:, g * each_out : (g + 1) * each_out] += np.einsum("oc,ncdhw->nodhw", w, p)
            size[:, g * each_out : (g + 1) * each_out] += np.einsum(
                "oc,ncdhw->nodhw", abs(w), abs(p)
            )
    return total, size


APPLY = {
    "none": lambda v: v,
    "relu": lambda v: np.maximum(v, 0),
    "clip": lambda v: np.clip(v, 0, 6),
    "leaky": lambda v: np.where(v < 0, 0.1 * v, v),
    "plus": lambda v: v + 1,
}


def plus_one() -> Activation:
    """Stands for an activation with a loop of its own, and one that is not zero at zero."""

    def emit(f, value, width):
        ones = "<" + ", ".join(["float 1.0"] * width) + ">"
        return f.value(f"fadd <{width} x float> {value}, {ones}")

    return Activation("plus", emit, costly=True)


ACTIVATIONS = {
    "none": identity(),
    "relu": relu(),
    "clip": clip(0, 6),
    "leaky": leaky_relu(0.1),
    "plus": plus_one(),
}


def check(
    shape,
    size,
    machine=(16, 32),
    batch=1,
    workers=1,
    residual=False,
    activation="none",
    planar=False,
    margin=0,
    cache=1 << 20,
    seed=0,
    halves=False,
):
    """Run one convolution into the middle of a larger buffer and compare all of that buffer."""
    width, registers = machine
    rng = np.random.default_rng(seed)
    before, after = shape.halo(size)
    out = shape.output(size)
    source = Plane(shape.channels, size, 1 if planar else width, before, after)
    edge = (0, margin, margin)
    target = Plane(shape.outputs, out, width, edge, edge).within(shape.outputs + 2 * width)
    beside = Plane(shape.outputs, out, width, (0, 2, 1), (0, 0, 3)) if residual else None
    x = rng.standard_normal((batch, shape.channels, *size)).astype(np.float32)
    w = rng.standard_normal((shape.outputs, shape.channels // shape.groups, *shape.kernel))
    w, bias = w.astype(np.float32), rng.standard_normal(shape.outputs).astype(np.float32)
    options = {"width": width, "registers": registers, "activation": ACTIVATIONS[activation]}
    if is_depthwise(shape) and shape.channels > 1:
        plan = plan_depthwise(shape, source, target, beside, **options)
        packed = pack_depthwise_weights(w, plan)
    else:
        plan = plan_conv(shape, source, target, beside, cache=cache, halves=halves, **options)
        packed = pack_conv_weights(w, plan)
    xb, yb = plane_buffer(source, batch), plane_buffer(target, batch, 7.0)
    fill(xb, source, x)
    packed_bias = pack_conv_bias(bias, plan)
    tables = conv_tables(plan, source, target, beside)
    rest = 0.0
    address = None
    if beside is not None:
        rest = rng.standard_normal((batch, shape.outputs, *out)).astype(np.float32)
        rb = plane_buffer(beside, batch)
        fill(rb, beside, rest)
        address = rb.ctypes.data + beside.origin
    addresses = ConvAddresses(
        source=xb.ctypes.data + source.origin,
        weights=packed.ctypes.data,
        bias=packed_bias.ctypes.data,
        # The second block of a buffer with one block more before and behind.
        target=yb.ctypes.data + target.origin + target.block,
        tiles=tables.tiles.ctypes.data,
        blocks=tables.blocks.ctypes.data,
        taps=tables.taps.ctypes.data,
        residual=address,
    )
    words = conv_words(plan, addresses, batch, tables, source, target, beside)
    call(conv_text(plan.text), words, workers, width)
    total, magnitude = reference(shape, x.astype(np.float64), w.astype(np.float64))
    spread = bias.reshape(1, -1, 1, 1, 1).astype(np.float64)
    want = APPLY[activation](total + spread + rest)
    terms = shape.taps * shape.channels // shape.groups + 3
    bound = EPS * terms * (magnitude + abs(spread) + abs(rest) + 1)
    whole = view(yb, target, batch).copy()
    blocks = inner(yb, target, batch)[:, 1 : 1 + target.blocks]
    got = blocks.transpose(0, 1, 5, 2, 3, 4).reshape(batch, -1, *out)
    assert (abs(got[:, : shape.outputs] - want) <= bound).all()
    assert (got[:, shape.outputs :] == 0).all()
    inner(whole, target, batch)[:, 1 : 1 + target.blocks] = 7.0
    assert (whole == 7.0).all(), "wrote outside its part of the buffer"
    return plan


def conv2d(channels, outputs, kernel, stride=1, dilation=1, pads=(0, 0, 0, 0), groups=1):
    return ConvShape(
        channels,
        outputs,
        (1, *kernel),
        (1, stride, stride),
        (1, dilation, dilation),
        (0, pads[0], pads[1]),
        (0, pads[2], pads[3]),
        groups,
    )


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"w{m[0]}")
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        (conv2d(16, 32, (3, 3), pads=(1, 1, 1, 1)), (1, 7, 7)),
        (conv2d(20, 48, (1, 1)), (1, 5, 9)),
        (conv2d(48, 20, (5, 5), pads=(2, 2, 2, 2)), (1, 9, 11)),
        (conv2d(16, 16, (7, 7), 2, pads=(3, 3, 3, 3)), (1, 17, 15)),
        (conv2d(32, 48, (1, 7), pads=(0, 3, 0, 3)), (1, 8, 17)),
        (conv2d(32, 48, (7, 1), pads=(3, 0, 3, 0)), (1, 17, 8)),
        (conv2d(1, 3, (3, 3), 3, pads=(0, 1, 2, 1)), (1, 11, 13)),
        (conv2d(16, 1000, (1, 1), 2), (1, 3, 5)),
        (conv2d(32, 32, (3, 3), 1, 2, pads=(2, 2, 2, 2)), (1, 10, 9)),
        (conv2d(32, 64, (3, 3), pads=(1, 1, 1, 1), groups=2), (1, 6, 6)),
    ],
    ids=lambda v: str(v.kernel[1:]) if isinstance(v, ConvShape) else "",
)
def test_common_layers(shape, size, machine):
    check(shape, size, machine, activation="relu", residual=True, margin=1, workers=2)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"w{m[0]}")
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_activations(activation, machine):
    check(conv2d(5, 20, (3, 3)), (1, 8, 8), machine, activation=activation, residual=True)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"w{m[0]}")
@pytest.mark.parametrize(("kernel", "stride"), [((7, 7), 2), ((3, 3), 2), ((3, 3), 1), ((1, 5), 3)])
def test_planar_input(kernel, stride, machine):
    shape = conv2d(3, 40, kernel, stride, pads=(1, 2, 0, 1))
    check(shape, (1, 19, 21), machine, batch=2, workers=2, planar=True, activation="relu")


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"w{m[0]}")
@pytest.mark.parametrize("channels", [80, 74])
def test_partial_sums_of_large_weights(channels, machine):
    shape = conv2d(channels, 96, (3, 3), pads=(1, 1, 1, 1))
    plan = check(
        shape,
        (1, 7, 7),
        machine,
        batch=2,
        workers=3,
        cache=1 << 14,
        activation="relu",
        residual=True,
    )
    assert plan.text.chunked
    assert plan.text.order == "weights"
    if channels % machine[0] and machine[0] == 16:
        assert plan.text.tail == channels % machine[0]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"w{m[0]}")
@pytest.mark.parametrize("channels", [16, 20, 72])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"),
    [((3, 3), 1, 1), ((3, 3), 2, 1), ((5, 5), 1, 1), ((5, 3), 2, 1), ((3, 3), 1, 2)],
)
@pytest.mark.parametrize("size", [(9, 23), (7, 7)])
def test_depthwise(kernel, stride, dilation, channels, machine, size):
    shape = conv2d(channels, channels, kernel, stride, dilation, (2, 1, 2, 2), channels)
    batch = 2 if size == (7, 7) else 1
    check(shape, (1, *size), machine, batch, 2, residual=True, activation="plus", margin=1)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"w{m[0]}")
@pytest.mark.parametrize("outputs", [3, 12, 20, 24, 40])
@pytest.mark.parametrize(("channels", "kernel"), [(13, (1, 1)), (48, (1, 1)), (20, (3, 2))])
def test_half_vectors(outputs, channels, kernel, machine):
    shape = conv2d(channels, outputs, kernel, pads=(0, kernel[1] - 1, 0, 0))
    plan = check(
        shape,
        (1, 9, 14),
        machine,
        batch=2,
        workers=2,
        residual=True,
        activation="plus",
        margin=1,
        halves=True,
    )
    count = -(-2 * outputs // machine[0])
    assert plan.text.halves == (count if count in (1, 3, 5) else 0)


def test_one_and_three_dimensions():
    line = ConvShape(16, 32, (1, 1, 5), before=(0, 0, 2), after=(0, 0, 2))
    check(line, (1, 1, 50), activation="relu")
    solid = ConvShape(16, 24, (3, 3, 3), (2, 1, 1), before=(1, 1, 1), after=(1, 1, 1))
    check(solid, (5, 6, 7), batch=2, workers=2)


def test_the_text_knows_nothing_of_batch_or_height():
    shape = conv2d(32, 64, (3, 3), pads=(1, 1, 1, 1))
    texts = {
        conv_text(check(shape, (1, height, 28), batch=batch).text)
        for height, batch in ((20, 1), (20, 3), (33, 2))
    }
    assert len(texts) == 1


def test_another_size_reads_the_same_packed_weights():
    shape = conv2d(48, 80, (3, 3), pads=(1, 1, 1, 1))
    weights = np.random.default_rng(0).standard_normal((80, 48, 1, 3, 3))
    plans = []
    for size in ((1, 14, 14), (1, 56, 9)):
        source, target = Plane(48, size, 16, *shape.halo(size)), Plane(80, size, 16)
        vectors = plans[0].vectors if plans else None
        plans.append(plan_conv(shape, source, target, width=16, registers=32, vectors=vectors))
    first, second = (pack_conv_weights(weights, plan) for plan in plans)
    np.testing.assert_array_equal(first, second)
    assert plans[0].text.tiles != plans[1].text.tiles


def test_nan_and_infinity_reach_the_output_and_not_the_padded_lanes():
    shape = conv2d(16, 20, (1, 1))
    source, target = Plane(16, (1, 2, 2), 16), Plane(20, (1, 2, 2), 16)
    plan = plan_conv(shape, source, target, width=16, registers=32, activation=relu())
    xb, yb = plane_buffer(source, 1), plane_buffer(target, 1)
    x = np.ones((1, 16, 1, 2, 2), np.float32)
    x[0, 3, 0, 0, 0], x[0, 3, 0, 1, 1] = np.nan, np.inf
    fill(xb, source, x)
    weights = pack_conv_weights(np.ones((20, 16, 1, 1, 1), np.float32), plan)
    bias, tables = pack_conv_bias(None, plan), conv_tables(plan, source, target)
    addresses = ConvAddresses(
        xb.ctypes.data,
        weights.ctypes.data,
        bias.ctypes.data,
        yb.ctypes.data,
        tables.tiles.ctypes.data,
        tables.blocks.ctypes.data,
        tables.taps.ctypes.data,
    )
    call(conv_text(plan.text), conv_words(plan, addresses, 1, tables, source, target))
    got = read(yb, target, 1)[0, :, 0]
    assert np.isnan(got[:, 0, 0]).all()
    assert np.isinf(got[:, 1, 1]).all()
    assert (got[:, 0, 1] == 16).all()
    assert (view(yb, target, 1)[0, 1, ..., 4:] == 0).all()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    channels=st.sampled_from([1, 3, 16, 20, 48]),
    outputs=st.sampled_from([1, 3, 16, 20, 48]),
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    pads=st.tuples(*[st.integers(0, 3)] * 4),
    size=st.tuples(st.integers(9, 14), st.integers(9, 20)),
    batch=st.integers(1, 3),
    workers=st.integers(1, 2),
    machine=st.sampled_from(MACHINES),
    planar=st.booleans(),
)
def test_any_geometry(
    channels, outputs, kernel, stride, dilation, pads, size, batch, workers, machine, planar
):
    shape = conv2d(channels, outputs, kernel, stride, dilation, pads)
    check(shape, (1, *size), machine, batch, workers, planar=planar and channels <= 3, margin=1)


def test_groups_must_fill_vectors():
    assert can_convolve(conv2d(64, 64, (3, 3), groups=4), 16)
    assert not can_convolve(conv2d(64, 64, (3, 3), groups=8), 16)
    assert can_convolve(conv2d(20, 3, (3, 3)), 16)
