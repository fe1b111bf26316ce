"""The command line: what each command prints, writes and returns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from neuralsym.cli import demo, main


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A small classifier as a file."""
    from neuralsym.layers import fully_connected, get_network, input, softmax

    network = input(("N", 4)) | fully_connected(6) | softmax | get_network("small")
    network.save(tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mnist.onnx"
    assert main(["demo", "-o", str(path)]) == 0
    out = capsys.readouterr().out
    assert "4,200,854" in out
    assert "Against onnx's reference evaluator: " in out
    assert "Against onnxruntime: " in out
    onnx.checker.check_model(str(path), full_check=True)


def test_the_demo_writes_over_no_file_but_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = demo._place(demo.define())
    assert str(place) == "mnist.onnx"
    demo.define().save(place)
    assert str(demo._place(demo.define())) == "mnist.onnx"
    place.write_bytes(b"of the user's")
    assert str(demo._place(demo.define())) == "mnist_1.onnx"


def test_the_demo_shows_the_code_that_it_runs() -> None:
    import inspect

    shown = demo.DEFINITION.split("(", 1)[1].split()
    ran = inspect.getsource(demo.define).split("return (", 1)[1].split()
    assert shown == ran


def test_zoo_list_and_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "list", "squeeze*"]) == 0
    out = capsys.readouterr().out
    assert "squeezenet1_0" in out
    assert "1,248,424" in out
    assert "resnet" not in out
    assert main(["zoo", "show", "resnet50"]) == 0
    assert "25,610,152" in capsys.readouterr().out
    assert main(["zoo", "list", "resnet??", "--sort", "accuracy"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "resnet" in line]
    assert listed == ["resnet50", "resnet34", "resnet18"]
    assert main(["zoo", "list", "nothing*"]) == 1
    assert main(["zoo", "show", "resnet51"]) == 1
    assert "resnet50" in capsys.readouterr().err


def test_export_twice_gives_the_same_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for file in files:
        arguments = ["export", "squeezenet1_1", "-o", str(file), "--classes", "7", "--size", "64"]
        assert main([*arguments, "--batch", "2", "--softmax", "--seed", "3"]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    shape = onnx.load(files[0]).graph.output[0].type.tensor_type.shape
    assert [d.dim_value for d in shape.dim] == [2, 7]


def test_run_with_files_and_random(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    arguments = ["run", str(small), "--input", str(tmp_path / "x.npy"), "--top", "2"]
    assert main([*arguments, "-o", str(tmp_path / "out.npz")]) == 0
    out = capsys.readouterr().out
    assert "float32[2, 6]" in out
    assert out.count("class ") == 4
    with np.load(tmp_path / "out.npz") as results:
        assert [results[n].shape for n in results.files] == [(2, 6)]
    assert main(["run", str(small), "--random", "--dim", "N=3"]) == 0
    assert "float32[3, 6]" in capsys.readouterr().out


def test_sizes_that_nothing_has(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(small), "--random", "--dim", "M=3"]) == 1
    assert "no dimension 'M'; there are N" in capsys.readouterr().err
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    assert main(["run", str(small), "--input", str(tmp_path / "x.npy"), "--dim", "N=2"]) == 1
    assert "--dim sizes random inputs" in capsys.readouterr().err
    assert main(["run", str(small), "--random", "--threads", "1000000000"]) == 1
    assert "threads must be 1 to 4096" in capsys.readouterr().err


def test_summary(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(small)]) == 0
    assert "Parameters: 30" in capsys.readouterr().out


@pytest.mark.parametrize("reference", ["onnx", "onnxruntime"])
def test_compare(small: Path, reference: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(small), "--reference", reference]) == 0
    assert "agrees" in capsys.readouterr().out


def test_16_bit_floats_may_differ_by_units_in_their_last_place() -> None:
    from neuralsym.testing import agreement

    ones = np.ones(3, np.float16)
    assert agreement("y", ones * np.float16(1 + 2**-9), ones).holds
    assert not agreement("y", ones * np.float16(1 + 2**-6), ones).holds
    assert not agreement("y", ones * np.float16(1 + 2**-9), ones, rtol=0, atol=1e-4).holds
    assert not agreement("y", np.float32(1 + 2**-9), np.float32(1)).holds


def test_compare_fails_beyond_the_tolerance(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from neuralsym import testing

    monkeypatch.setitem(
        testing._RUNTIMES, "onnx", lambda model, feed: [np.ones((1, 6), np.float32)]
    )
    assert main(["compare", str(small), "--reference", "onnx"]) == 1
    assert "differs in 6 values" in capsys.readouterr().out


def test_doctor_and_cache(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("numpy", "onnx", "threads", "kernel cache", "a compiled network computes"):
        assert word in out
    assert main(["cache", "info"]) == 0
    assert "kernels" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "absent.onnx", "--random"], "absent.onnx"),
        (["run", "resnet51", "--random"], "resnet50"),
        (["summary", "."], "neither a file nor a network|folder|directory"),
        (["export", "resnet51", "-o", "x.onnx"], "resnet50"),
        (["export", "resnet18", "-o", "."], "folder"),
        (["export", "resnet18", "-o", "x.txt"], ".txt"),
        (["export", "mnist", "-o", "x.onnx", "--batch", "-3"], "a name to leave it free"),
        (["run", "mnist", "-o", "absent/x.npz"], "there is no folder"),
        (["bench", "mnist", "--json", "absent/x.json"], "there is no folder"),
        (["profile", "mnist", "--svg", "absent/x.svg"], "there is no folder"),
        (["profile", "mnist", "--json", "absent/x.json"], "there is no folder"),
        (["doctor", "--ops", "--write", "absent/x.md"], "there is no folder"),
        (["demo", "-o", "absent/x.onnx"], "there is no folder"),
        (["run", "mnist", "--input", "imput=x.npy"], "the model has no input 'imput'"),
    ],
)
def test_mistakes_are_said_in_a_line_and_exit_with_one(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    err = capsys.readouterr().err
    assert "neuralsym: error: " in err
    assert any(word in err for word in words.split("|"))
    assert "\n  at " not in err  # the line of the script is none of the user's
    assert not list(tmp_path.iterdir())


def test_warnings_of_the_command_are_lines_of_its_own(tmp_path: Path) -> None:
    scale = helper.make_node("Scale", ["x"], ["m"], domain="org.example")
    x, y = (helper.make_tensor_value_info(name, 1, [2]) for name in "xy")
    graph = helper.make_graph([scale, helper.make_node("Relu", ["m"], ["y"])], "g", [x], [y])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("org.example", 1)]
    onnx.save_model(helper.make_model(graph, opset_imports=imports), tmp_path / "scale.onnx")
    made = subprocess.run(
        [sys.executable, "-m", "neuralsym", "run", str(tmp_path / "scale.onnx")],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 1
    assert made.stderr.startswith("neuralsym: warning: ")
    assert "library.typer('Scale', ..., domain='org.example')" in made.stderr


def test_a_reader_that_stops_early_is_no_error() -> None:
    made = subprocess.Popen(
        [sys.executable, "-m", "neuralsym", "zoo", "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert made.stdout is not None
    made.stdout.close()
    assert made.stderr is not None
    assert made.stderr.read() == b""
    made.stderr.close()
    made.wait()


def test_usage_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["export", "resnet18"])
    assert stopped.value.code == 2
    assert main([]) == 2


def test_the_package_runs_as_a_module() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "neuralsym", "--version"], capture_output=True, text=True
    )
    assert made.returncode == 0
    assert made.stdout.startswith("neuralsym ")
