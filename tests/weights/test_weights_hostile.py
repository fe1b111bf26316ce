"""Files of weights that mean harm are refused in words, run nothing and fill no memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from weights_files import (
    ORDERED,
    PROTO,
    VALUES,
    call,
    holds_values,
    named,
    network,
    number,
    row,
    sound_legacy,
    sound_zip,
    state_dict,
    storage,
    table,
    tensor,
    text,
    torch_legacy,
    torch_zip,
    written,
)

from neuralsym.errors import FormatError, WeightsError
from neuralsym.weights.formats import read_weights

DATA = {str(i): array.tobytes() for i, array in enumerate(VALUES.values())}
FOLDER = Path(__file__).parent / "files"


def refused(path: Path, match: str | None = None) -> None:
    given = network()
    before = {name: given.weights[name].copy() for name in given.weights}
    with pytest.raises(WeightsError, match=match) as caught:
        given.load_weights(path)
    assert len(str(caught.value)) < 2000
    for name, value in before.items():
        np.testing.assert_array_equal(given.weights[name], value)


class Runs:
    """A pickle of it makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


class RunsText(Runs):
    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"__import__('os').mkdir({str(self.marker)!r})",)


@pytest.mark.parametrize("kind", [Runs, RunsText])
@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_a_pickle_is_not_run(
    tmp_path: Path, kind: type[Runs], protocol: int, legacy: bool
) -> None:
    marker = tmp_path / "ran"
    bad = pickle.dumps({"fc.weight": kind(marker)}, protocol)
    data = torch_legacy(bad, [], b"") if legacy else torch_zip(bad, {})
    refused(written(tmp_path, "bad.pth", data), "wants to call")
    assert not marker.exists()
    pickle.loads(bad)
    assert marker.exists()  # it would have


class Module:
    """As torch's, whose pickle names its class."""


def test_a_whole_model_is_refused_with_the_way_to_its_weights(tmp_path: Path) -> None:
    data = torch_zip(pickle.dumps(Module(), 2), {})
    refused(written(tmp_path, "model.pth", data), r"torch\.save\(model\.state_dict\(\), path\)")


def dict_of(value: bytes) -> bytes:
    return PROTO + table({"fc.weight": value}) + b"."


MKDIR = named("os", "mkdir")
CALLS: dict[str, bytes] = {
    "reduce": call(MKDIR, text("ran")),
    "a nested name": call(named("torch", "os.mkdir"), text("ran")),
    "a name of the allowed module": call(named("torch._utils", "mkdir"), text("ran")),
    "getattr": call(named("builtins", "getattr"), MKDIR, text("__call__")),
    "instance": b"(" + text("ran") + b"ios\nmkdir\n",
    "object": b"(" + MKDIR + text("ran") + b"o",
    "newobj": MKDIR + row(text("ran")) + b"\x81",
    "newobj_ex": MKDIR + row(text("ran")) + b"}\x92",
    "extension": b"\x82\x01",
    "a stacked name": text("os") + text("mkdir") + b"\x93" + row(text("ran")) + b"R",
    "state of a tensor": tensor(storage("0", "Float", 12), (3, 4)) + table({"x": number(1)}) + b"b",
    "state of a dict": b"}" + table({"x": number(1)}) + b"b",
    "a tensor's function": call(
        named("torch._tensor", "_rebuild_from_type_v2"), MKDIR, named("torch", "T"),
        row(text("ran")), b"N",
    ),
    "a callable in the place of a storage": tensor(MKDIR, (3, 4)),
    "an ordered dict of a call": call(named("collections", "OrderedDict"), MKDIR),
    "a parameter of a call": call(
        named("torch._utils", "_rebuild_parameter"), MKDIR, b"\x89", ORDERED
    ),
    "an id of a call": row(MKDIR, MKDIR, MKDIR, MKDIR, MKDIR) + b"Q",
    "an id in text": b"Pran\n",
    "a buffer": b"\x97",
    "a byte array": b"\x96" + struct.pack("<Q", 2**40),
    "an unknown storage": tensor(storage("0", "Evil", 12), (3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_nothing_but_tensors_can_be_made(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(written(tmp_path, "bad.pth", torch_zip(dict_of(CALLS[what]), DATA)))
    assert not (tmp_path / "ran").exists()


FLOATS = storage("0", "Float", 12)
SIZES: dict[str, tuple[bytes, str]] = {
    "huge": (tensor(FLOATS, (2**40, 2**10), (1, 1)), "overlap|beyond"),
    "repeated": (tensor(FLOATS, (10**6, 10**6), (0, 0)), "overlap"),
    "overlapping": (tensor(FLOATS, (4, 4), (2, 1)), "overlap"),
    "beyond": (tensor(FLOATS, (3, 4), (4, 1), 1), "beyond"),
    "strided beyond": (tensor(FLOATS, (3, 4), (100, 1)), "beyond"),
    "negative stride": (tensor(FLOATS, (3, 4), (-4, 1)), "impossible"),
    "negative offset": (tensor(FLOATS, (3, 4), (4, 1), -1), "without a storage"),
    "negative size": (tensor(FLOATS, (-3, 4), (4, 1)), "impossible"),
    "more strides than sizes": (tensor(FLOATS, (3, 4), (4, 1, 1)), "impossible"),
    "huge numbers": (tensor(FLOATS, (2**70, 4), (4, 1)), "impossible"),
    "a storage that claims more": (tensor(storage("0", "Float", 2**50), (3, 4)), "has 48 bytes"),
    "a storage of negative size": (tensor(storage("0", "Float", -1), (3, 4)), "no storage"),
    "a storage that is not there": (tensor(storage("9", "Float", 12), (3, 4)), "truncated"),
    "a storage outside": (tensor(storage("../version", "Byte", 2), (2,)), "truncated|shape"),
}


@pytest.mark.parametrize("what", SIZES)
def test_sizes_are_checked_before_anything_is_made(tmp_path: Path, what: str) -> None:
    bad, match = SIZES[what]
    path = written(tmp_path, "bad.pth", torch_zip(dict_of(bad), DATA))
    tracemalloc.start()
    refused(path, match)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_a_legacy_file_has_the_storages_that_it_says(tmp_path: Path) -> None:
    sound = sound_legacy()
    assert network().load_weights(written(tmp_path, "sound.pth", sound)).scheme == "torch"
    one = {"fc.weight": VALUES["fc.weight"]}
    held = struct.pack("<q", 12) + VALUES["fc.weight"].tobytes()
    bad = {
        "cut": sound[:-4],
        "a count that is too large": torch_legacy(
            state_dict(one, b"N"), ["0"], struct.pack("<q", 2**60) + held[8:]
        ),
        "another count": torch_legacy(state_dict(one, b"N"), ["0"], struct.pack("<q", 11) + held),
        "no such key": torch_legacy(state_dict(one, b"N"), ["1"], held),
        "a key twice": torch_legacy(state_dict(one, b"N"), ["0", "0"], held * 2),
        "a view": torch_legacy(state_dict(one, row(text("0"), number(0), number(12))), ["0"], held),
    }
    for name, data in bad.items():
        refused(written(tmp_path, "bad.pth", data), "storage|truncated|cannot be read")
        assert name


PICKLES: dict[str, bytes] = {
    "nested without end": PROTO + b"(" * 50_000 + b"t" * 50_000 + b".",
    "a list in itself": PROTO + b"]q\x00h\x00a.",
    "a dict in itself": PROTO + b"}q\x00" + text("state_dict") + b"h\x00s.",
    "lists of lists of lists": PROTO + b"]q\x00" + b"](h\x00" * 5_000 + b"e" * 5_000 + b".",
    "a memo that is far away": PROTO + b"Nr\xff\xff\xff\xff.",
    "a memo that is not there": PROTO + b"h\x05.",
    "a text of 4 GB": PROTO + b"X\xff\xff\xff\xffa.",
    "a text of 2**63 bytes": PROTO + b"\x8d" + b"\xff" * 8 + b"a.",
    "a number of 2 GB": PROTO + b"\x8b\xff\xff\xff\x7f.",
    "an unhashable key": PROTO + b"}](N)u.",
    "a tuple as a key": PROTO + b"}" + b"(" * 5000 + b"t" * 5000 + b"Ns.",
    "an empty stack": PROTO + b"0.",
    "nothing": b".",
    "no end": PROTO + b"}",
    "a number in text of a million digits": PROTO + b"I" + b"9" * 1_000_000 + b"\n.",
    "a future protocol": b"\x80\x09}.",
    "no dict": PROTO + b"K\x01.",
    "no tensors": PROTO + table({"epoch": number(3)}) + b".",
}


@pytest.mark.parametrize("what", PICKLES)
@pytest.mark.parametrize("legacy", [False, True])
def test_pickles_that_are_deep_or_wild(tmp_path: Path, what: str, legacy: bool) -> None:
    bad = PICKLES[what]
    data = torch_legacy(bad, [], b"") if legacy else torch_zip(bad, DATA)
    path = written(tmp_path, "bad.pth", data)
    tracemalloc.start()
    refused(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * len(data) + 2**21


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", state_dict(VALUES), zipfile.ZIP_STORED)
        archive.writestr("archive/data/0", bytes(48))
        archive.writestr("archive/data/1", bytes(2**24))
    refused(written(tmp_path, "bomb.pth", bomb.getvalue()), "compressed")
    refused(written(tmp_path, "bomb.npz", bomb.getvalue()), "missing")
    false = bytearray(torch_zip(state_dict(VALUES), DATA, packing=zipfile.ZIP_DEFLATED))
    place = false.index(b"PK\x01\x02", false.index(b"PK\x01\x02") + 1)
    false[place + 24 : place + 28] = struct.pack("<I", 2**31)  # a size that is not true
    refused(written(tmp_path, "false.pth", bytes(false)), "zip bomb|two sizes")


def test_parts_of_a_zip_do_not_overlap(tmp_path: Path) -> None:
    data = bytearray(torch_zip(state_dict(VALUES), {"0": DATA["0"], "1": DATA["0"]}))
    first = data.index(b"PK\x01\x02")
    entries = [first]
    while (at := data.find(b"PK\x01\x02", entries[-1] + 4)) > 0:
        entries.append(at)
    data[entries[3] + 42 : entries[3] + 46] = data[entries[2] + 42 : entries[2] + 46]
    refused(written(tmp_path, "bad.pth", bytes(data)), "overlap|truncated")


@pytest.mark.parametrize("name", ["w.pth", "w.npz", "w.safetensors", "w.h5", "w.keras", "w.onnx"])
@pytest.mark.parametrize("data", [b"", b"x", b"PK\x03\x04", b"\0" * 600, b"\x80\x02}."])
def test_what_is_no_such_file(tmp_path: Path, name: str, data: bytes) -> None:
    refused(written(tmp_path, name, data), r"w\.\w+")


def safetensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    body = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(body) if length is None else length) + body + data


def entry(dtype: Any = "F32", shape: Any = (3,), offsets: Any = (0, 12)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HEADERS: dict[str, bytes] = {
    "a header of 2**63 bytes": safetensors({}, length=2**63),
    "a header beyond the end": safetensors({}, length=100),
    "no JSON": safetensors(b"{'a': 1}"),
    "nested JSON": safetensors(b"[" * 100_000),
    "a list": safetensors([1, 2]),
    "no entry": safetensors({"fc.bias": 3}),
    "an unknown type": safetensors({"fc.bias": entry("F31")}, bytes(12)),
    "a type that is a list": safetensors({"fc.bias": entry(["F32"])}, bytes(12)),
    "a negative size": safetensors({"fc.bias": entry(shape=[-3])}, bytes(12)),
    "a size in text": safetensors({"fc.bias": entry(shape=["3"])}, bytes(12)),
    "a size that is true": safetensors({"fc.bias": entry(shape=[True, 3])}, bytes(12)),
    "huge sizes": safetensors({"fc.bias": entry(shape=[2**40, 2**40])}, bytes(12)),
    "other sizes": safetensors({"fc.bias": entry(shape=[4])}, bytes(16)),
    "cut": safetensors({"fc.bias": entry()}, bytes(11)),
    "offsets backwards": safetensors({"fc.bias": entry(offsets=[12, 0])}, bytes(12)),
    "overlapping": safetensors({"a": entry(), "b": entry(offsets=[4, 16])}, bytes(16)),
}


@pytest.mark.parametrize("what", HEADERS)
def test_headers_of_safetensors_are_checked(tmp_path: Path, what: str) -> None:
    path = written(tmp_path, "bad.safetensors", HEADERS[what])
    with pytest.raises(WeightsError, match="cannot be read"):
        read_weights(path)


def npz(header: bytes, data: bytes = b"", magic: bytes = b"\x93NUMPY\x01\x00") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("fc.bias.npy", magic + struct.pack("<H", len(header)) + header + data)
    return made.getvalue()


def npy(descr: str = "'<f4'", fortran: str = "False", shape: str = "(3,)") -> bytes:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()


ARRAYS: dict[str, bytes] = {
    "objects": npz(npy("'|O'"), bytes(24)),
    "records": npz(npy("[('a', '<f4')]"), bytes(12)),
    "code": npz(b"__import__('os').mkdir('ran')"),
    "huge": npz(npy(shape="(1000000000000,)"), bytes(12)),
    "negative": npz(npy(shape="(-3,)"), bytes(12)),
    "another size": npz(npy(shape="(4,)"), bytes(12)),
    "no magic": npz(npy(), bytes(12), b"\x93NUMPX\x01\x00"),
    "a header beyond the end": npz(b"", b"", b"\x93NUMPY\x02\x00\xff\xff"),
    "deep": npz(npy(shape="(" * 5000 + ")" * 5000), bytes(12)),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_headers_of_npz_are_read_as_text(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WeightsError, match=r"fc\.bias"):
        read_weights(written(tmp_path, "bad.npz", ARRAYS[what]))
    assert not (tmp_path / "ran").exists()


def test_a_pickled_array_in_npz_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", **{"fc/kernel": np.array([Runs(tmp_path / "ran")])})
    refused(tmp_path / "w.npz", "no plain array|no number type")
    assert not (tmp_path / "ran").exists()


# -- mutated files -------------------------------------------------------------------------
def saved(suffix: str) -> bytes:
    if suffix == ".npz":
        made = io.BytesIO()
        np.savez(made, **VALUES)
        return made.getvalue()
    if suffix == ".safetensors":
        held = b"".join(array.tobytes() for array in VALUES.values())
        header = {
            "fc.weight": entry(shape=[3, 4], offsets=[0, 48]),
            "fc.bias": entry(offsets=[48, 60]),
        }
        return safetensors(header, held)
    return (FOLDER / f"small{suffix}").read_bytes()


SOUND: dict[str, tuple[str, bytes]] = {
    "zip": (".pth", sound_zip()),
    "legacy": (".pth", sound_legacy()),
    "npz": (".npz", saved(".npz")),
    "safetensors": (".safetensors", saved(".safetensors")),
    "keras 3": (".h5", saved(".weights.h5")),
    "keras 2": (".h5", saved(".h5")),
}
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from(["set", "cut", "put", "int", "end"]),
        st.binary(min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=6,
)


def edited(data: bytes, edits: list[tuple[float, str, bytes]]) -> bytes:
    made = bytearray(data)
    for place, kind, value in edits:
        at = min(int(place * len(made)), max(len(made) - 1, 0))
        if kind == "set":
            made[at : at + 1] = value[:1]
        elif kind == "cut":
            del made[at : at + len(value)]
        elif kind == "put":
            made[at:at] = value
        elif kind == "int":
            made[at : at + 4] = (value * 4)[:4]
        else:
            del made[at:]
    return bytes(made)


def read_safely(path: Path, data: bytes) -> None:
    """It is read or refused, and takes no more memory than a file of its size may."""
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with suppress(WeightsError, FormatError):
            for found in read_weights(path).tensors.values():
                if found.size < 1000:
                    _ = found.value
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 100 * len(data) + 2**20


@pytest.mark.parametrize("what", SOUND)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=EDITS)
def test_a_damaged_file_is_read_or_refused(
    tmp_path: Path, what: str, edits: list[tuple[float, str, bytes]]
) -> None:
    suffix, sound = SOUND[what]
    read_safely(tmp_path / f"w{suffix}", edited(sound, edits))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=EDITS)
def test_a_damaged_pickle_is_read_or_refused(
    tmp_path: Path, edits: list[tuple[float, str, bytes]]
) -> None:
    read_safely(tmp_path / "w.pth", torch_zip(edited(state_dict(VALUES), edits), DATA))


def test_sound_files_are_read(tmp_path: Path) -> None:
    for what, (suffix, data) in SOUND.items():
        given = network()
        given.load_weights(written(tmp_path, f"w{suffix}", data))
        assert holds_values(given), what
