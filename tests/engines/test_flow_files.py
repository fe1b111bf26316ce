"""The .flow format: files written down by hand read to what they hold and are written again."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from flow_files import FILES, as_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralsym.engines.flow import Flow, FunctionFlag, VariableFlag
from neuralsym.errors import FormatError, GraphError

RAW = {name: as_bytes(text) for name, text in FILES.items()}


def read(name: str) -> Flow:
    return Flow.from_bytes(RAW[name])


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_written_again_byte_for_byte(name: str, tmp_path: Path) -> None:
    flow = read(name)
    assert flow.version == int(name[-1])
    assert flow.to_bytes() == RAW[name]
    path = tmp_path / "a.flow"
    path.write_bytes(RAW[name])
    again = Flow.load(path)
    again.save(path)
    assert path.read_bytes() == RAW[name]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["classifier_3", "classifier_5"])
def test_a_classifier_holds_its_variables_operations_and_function(name: str) -> None:
    flow = read(name)
    assert list(flow.vars) == ["x:0", "W", "b", "MatMul:0", "y:0"]
    x, w, b = flow.var("x"), flow.var("W"), flow.var("b")
    assert (x.name, x.shape, x.typestr(), x.data) == ("x:0", [-1, 3], "float32[-1,3]", None)
    np.testing.assert_array_equal(w.array(), [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(b.array(), np.array([0.5, -0.5], np.float32))
    assert not w.array().flags.writeable
    matmul, add = flow.ops.values()
    assert (matmul.type, matmul.inputs, matmul.outputs[0].name) == ("MatMul", [x, w], "MatMul:0")
    assert matmul.attrs == {"transpose_a": "false", "transpose_b": "false"}
    assert not matmul.flag_attr("transpose_a")
    assert add.func is flow.func("classifier")
    assert x.consumers == [matmul]
    assert flow.lookup("y") is flow.vars["y:0"]  # the first output of the operation y
    assert flow.inputs(flow.func("classifier")) == [x]
    assert flow.outputs(flow.func("classifier")) == [flow.vars["y:0"]]
    if flow.version == 5:
        assert x.input
        assert w.learnable
        assert flow.lookup("y").output


def test_references_have_a_mark_before_version_5_and_a_flag_after() -> None:
    early = read("references_3")
    assert early.var("h_in").ref
    assert early.var("h_in").typestr() == "&float32[1,2]"
    assert [v.name for v in early.cnx("hidden").links] == ["h_in", "h_out"]
    late = Flow.from_bytes(early.to_bytes(version=5))
    assert late.var("h_in").flags == VariableFlag.REF
    assert late.var("h_in").type == "float32"
    assert late.to_bytes(version=3) == RAW["references_3"]
    marked = read("flags_5")
    assert marked.var("r").ref
    assert marked.var("s").ref  # readers of every version know the mark
    assert not marked.var("t").ref


def test_blobs_have_attributes_and_data() -> None:
    flow = read("blobs_4")
    lexicon = flow.blob("lexicon")
    assert (lexicon.type, lexicon.attrs) == ("dict", {"delimiter": "10", "oov": "0"})
    assert bytes(lexicon.raw()) == b"the\nof\nand\n"
    assert flow.blob("spec").raw() == b""


def test_operations_of_tensorflow_without_inputs_are_constants_and_inputs() -> None:
    flow = read("tensorflow_4")
    variable = flow.ops["W"]
    assert variable.inputs == []
    np.testing.assert_array_equal(variable.outputs[0].array(), np.array([3, 4], np.float32))
    assert flow.ops["y"].inputs[1] is flow.vars["W:0"]  # by its alias
    assert flow.inputs(flow.func("scale")) == [flow.vars["x:0"]]
    assert flow.var("x:0").shape == [0]


def test_operations_come_in_any_order_and_are_put_in_one() -> None:
    flow = read("unordered_4")
    assert [op.name for op in flow.func("one").ops] == ["last", "first"]
    assert [op.name for op in flow.order(flow.func("one"))] == ["first", "last"]
    assert flow.var("w").consumers == [flow.ops["first"], flow.ops["other"]]


def test_flags_are_kept() -> None:
    flow = read("flags_5")
    assert flow.flags == 7
    f = VariableFlag
    assert flow.var("t").flags == f.LEARNABLE | f.UNIQUE | f.ROW | f.NOGRADIENT
    assert flow.var("u").flags == f.OUT | f.DYNAMIC | f.COL | f.CAST
    assert flow.func("f").flags == FunctionFlag.TRAINING | FunctionFlag.BACKPROP
    assert flow.func("f").backprop
    assert (flow.ops["o"].flags, flow.cnx("c").flags, flow.blob("z").flags) == (1, 9, 5)
    with pytest.warns(UserWarning, match="no flags but &"):
        early = flow.to_bytes(version=4)
    assert Flow.from_bytes(early).var("r").flags == VariableFlag.REF


def test_variables_have_attributes_from_version_6_on() -> None:
    flow = read("attributes_6")
    assert flow.var("x").attrs == {"doc": "pixels", "scale": "0.500000"}
    assert flow.var("é").attrs == {"": ""}
    with pytest.raises(FormatError, match=r"variable 'x' has attributes.*version 6"):
        flow.to_bytes(version=5)


def test_every_type_gives_its_array() -> None:
    flow = read("types_6")
    found = {n: flow.var(n).array() for n in flow.vars if flow.var(n).dtype not in (None, "string")}
    assert found["float16"].tolist() == [1, -2]
    assert found["bfloat16"].astype(np.float32).tolist() == [1, -2]
    assert found["uint64"].tolist() == [2**64 - 1, 1]
    assert found["bool"].tolist() == [True, False]
    assert found["complex64"].tolist() == [1 + 2j, 3 + 4j]
    assert (found["qint8"].dtype, found["qint8"].tolist()) == (np.int8, [-128, 127])
    assert (found["int"].dtype, found["double"].dtype) == (np.int32, np.float64)
    assert flow.var("nothing").dtype is None
    assert flow.var("untyped").typestr() == "void"
    with pytest.raises(FormatError, match="no array"):
        flow.var("text").array()


def test_scalars_and_aliases() -> None:
    flow = read("scalars_6")
    assert flow.var("half").array().shape == ()
    assert flow.var("n").array() == 3
    assert flow.ops["m"].inputs[1].name == "count"
    assert flow.ops["m"].attr("expr") == "@0=Mul(%0,%1)"


def test_recurrent_connectors() -> None:
    flow = read("recurrent_5")
    assert flow.cnx("control").links == []
    assert flow.var("steps").dynamic
    assert "connector hidden: h, h2" in str(flow)


# -- made in Python ------------------------------------------------------------------------------
def built() -> Flow:
    flow = Flow()
    x = flow.var("x", "float32", [1, 3])
    w = flow.var("w", "float32", [3, 2], np.arange(6, dtype=np.float32).reshape(3, 2))
    y = flow.var("y", "float32", [1, 2])
    op = flow.op("mul", "MatMul")
    op.add_input(x)
    op.add_input(w)
    op.add_output(y)
    op.add_attr("transpose_b", False)
    flow.func("f").add(op)
    flow.cnx("c").add(x)
    flow.blob("words").data = "a b"
    flow.blob("words").add_attr("count", 2)
    return flow


def test_what_is_built_is_written_in_version_4_and_read_again(tmp_path: Path) -> None:
    flow = built()
    flow.save(tmp_path / "f.flow")
    again = Flow.load(tmp_path / "f.flow")
    assert again.version == 4
    assert again.to_bytes() == flow.to_bytes()
    np.testing.assert_array_equal(again.var("w").array(), flow.var("w").data)
    assert again.ops["mul"].attrs == {"transpose_b": "0"}
    assert bytes(again.blob("words").raw()) == b"a b"
    flow.var("x").input = True
    assert Flow.from_bytes(flow.to_bytes()).version == 5
    flow.var("x").add_attr("doc", "pixels")
    assert Flow.from_bytes(flow.to_bytes()).version == 6


def test_data_is_stored_as_numbers_texts_and_arrays_are() -> None:
    flow = Flow()
    assert bytes(flow.var("f", data=0.5).raw()) == struct.pack("<f", 0.5)
    assert bytes(flow.var("i", data=7).raw()) == struct.pack("<i", 7)
    assert bytes(flow.var("s", data="é").raw()) == "é".encode()
    columns = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert bytes(flow.var("t", data=columns).raw()) == columns.copy(order="C").tobytes()
    assert bytes(flow.var("b", data=np.array([1, 2], ">i2")).raw()) == b"\1\0\2\0"
    assert flow.var("z", data=np.zeros((0, 3))).raw() == b""


def test_names_are_changed_everywhere() -> None:
    flow = built()
    flow.var("x").aliases.append("x/in")
    flow.rename_prefix("x", "net/x")
    flow.rename_suffix("ul", "ultiply")
    assert list(flow.vars) == ["net/x", "w", "y"]
    assert flow.find_var("net/x/in") is flow.vars["net/x"]
    assert list(flow.ops) == ["multiply"]
    with pytest.raises(GraphError, match="two parts"):
        flow.rename_prefix("w", "y")


def test_mistakes_in_building_are_said_at_once() -> None:
    flow = built()
    with pytest.raises(GraphError, match="made by 'mul' already"):
        flow.op("other").add_output(flow.var("y"))
    with pytest.raises(GraphError, match="belongs to function 'f'"):
        flow.func("g").add(flow.op("mul"))
    with pytest.raises(GraphError, match=r"no variable 'mulll'.*mul"):
        flow.lookup("mulll")
    loop = flow.op("loop", "Neg")
    loop.add_input(flow.var("y"))
    loop.add_output(flow.var("x"))
    flow.func("f").add(loop)
    with pytest.raises(GraphError, match="cycle"):
        flow.order(flow.func("f"))
    with pytest.raises(FormatError, match="blobs from version 4"):
        flow.to_bytes(version=3)
    with pytest.raises(FormatError, match="version 7"):
        flow.to_bytes(version=7)
    flow.var("x").shape = [2**31]
    with pytest.raises(FormatError, match="32-bit"):
        flow.to_bytes()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no folder"):
        built().save(tmp_path / "none" / "f.flow")
    with pytest.raises(FormatError, match="is a folder"):
        built().save(tmp_path)
    with pytest.raises(FormatError, match="no file"):
        Flow.load(tmp_path / "f.flow")


# -- broken files --------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["classifier_3", "flags_5", "attributes_6", "blobs_4"])
def test_a_file_that_is_cut_off_anywhere_is_refused(name: str) -> None:
    whole = RAW[name]
    for size in range(len(whole)):
        with pytest.raises(FormatError):
            Flow.from_bytes(whole[:size])
    with pytest.raises(FormatError, match="1 bytes follow"):
        Flow.from_bytes(whole + b"\0")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"flow\3", b"flaw\3", "begins with b'flaw'"),
        (b"flow\3", b"flow\2", "version 2"),
        (b"flow\3", b"flow\x07", "version 7"),
        (b"\1\0\0\0W", b"\1\0\0\0b", "two variables are called 'b'"),
        (b"\3\0\0\0x:0\1\0\0\0W", b"\3\0\0\0x:1\1\0\0\0W", r"'x:1', and there is no such variable"),
        (b"float32", b"float33", "'float33' is no type"),
        (b"\xff\xff\xff\xff", b"\xfe\xff\xff\xff", r"shape \[-2, 3\]"),
        (struct.pack("<Q", 24), struct.pack("<Q", 20), "20 bytes of data"),
        (struct.pack("<Q", 24), struct.pack("<Q", 2**62), "only .* are left"),
        (b"\2\0\0\0\3\0\0\0\2\0\0\0", b"\2\0\0\0\3\0\0\0\2\0\0\x7f", "takes"),
        (b"transpose_b", b"transpose_a", "two attributes 'transpose_a'"),
        (b"\1\0\0\0\x0a\0\0\0classifier", b"\xff\xff\xff\x7f\x0a\0\0\0classifier", "cannot be in"),
        (b"classifier", b"classif\xff\xff\xff", "not UTF-8"),
    ],
)
def test_a_file_that_lies_is_refused_with_the_place(old: bytes, new: bytes, said: str) -> None:
    raw = RAW["classifier_3"]
    assert old in raw
    with pytest.raises(FormatError, match=said):
        Flow.from_bytes(raw.replace(old, new, 1))


def test_more_data_than_the_shape_takes_is_told() -> None:
    flow = built()
    flow.var("w").shape = [2, 2]
    with pytest.warns(UserWarning, match=r"24 bytes of data.* takes 16"):
        again = Flow.from_bytes(flow.to_bytes())
    assert again.var("w").array().tolist() == [[0, 1], [2, 3]]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(RAW)), st.data())
@pytest.mark.filterwarnings("ignore:.*bytes of data")
def test_changed_bytes_give_a_flow_or_a_format_error(name: str, data: st.DataObject) -> None:
    raw = bytearray(RAW[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.one_of(st.sampled_from([0, 1, 127, 128, 255]), st.integers(0, 255)))
    try:
        flow = Flow.from_bytes(bytes(raw))
    except FormatError:
        return
    assert flow.to_bytes() == bytes(raw)
