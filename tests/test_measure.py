"""Measuring: what is timed and how, what is counted, and what the two commands print and write."""

from __future__ import annotations

import json
import os
import sys
import threading
import xml.etree.ElementTree as ElementTree
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from neuralsym import Graph, Network, Options, ops
from neuralsym.chart import COLOURS, Bar, bar_chart
from neuralsym.cli import main
from neuralsym.cpu import peak
from neuralsym.cpu.compiler import compile_graph
from neuralsym.cpu.machine import Target, host_isas
from neuralsym.cpu.profile import (
    StepTime,
    grouped,
    operations,
    profile_instance,
    repeated,
)
from neuralsym.cpu.store import Store
from neuralsym.errors import BadAttribute, ExecutionError
from neuralsym.layers import fully_connected, get_network, input, relu, softmax
from neuralsym.measure import Timing, batch_feed, interleave, measure, pinned, profile

needs_affinity = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system knows no affinity"
)


def small() -> Network:
    """16 -> 8 -> 4, the batch free."""
    return input(("N", 16)) | fully_connected(8) | relu | fully_connected(4) | get_network("small")


# -- the clockwork -------------------------------------------------------------------------
class Clock:
    """A clock that only calls move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def job(self, name: str, seconds: float) -> None:
        self.now += seconds
        self.calls.append(name)


def test_sides_take_turns_and_are_warmed_up_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neuralsym.measure.SAMPLE_SECONDS", 0.0)
    clock = Clock()
    sides = {"a": lambda: clock.job("a", 2.0), "b": lambda: clock.job("b", 3.0)}
    found = interleave(sides, clock, rounds=4)
    assert clock.calls[-8:] == ["a", "b"] * 4
    assert clock.calls[:-8] == ["a"] * 5 + ["b"] * 5
    assert found["a"].seconds == (2.0,) * 4
    assert found["b"].seconds == (3.0,) * 4


def test_short_calls_are_repeated_for_a_sample() -> None:
    count = 0

    def call() -> None:
        nonlocal count
        count += 1

    timing = interleave({"a": call}, rounds=3)["a"]
    assert timing.calls > 100
    assert len(timing.seconds) == 3
    assert 0 < timing.median < 1e-4
    assert count > 3 * timing.calls


def test_a_timing_tells_median_and_quartile_distance() -> None:
    timing = Timing((4.0, 1.0, 3.0, 2.0, 100.0))
    assert timing.median == 3.0
    assert timing.quartiles == (2.0, 4.0)
    assert timing.spread == 2.0


def test_at_least_one_round() -> None:
    with pytest.raises(BadAttribute, match="at least 1 round"):
        interleave({}, rounds=0)


@needs_affinity
def test_all_threads_are_pinned_and_set_free_again() -> None:
    before = os.sched_getaffinity(0)
    ready, done = threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def other() -> None:
        ready.set()
        done.wait()
        seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    with pinned(1) as cpus:
        assert len(cpus) == 1
        assert os.sched_getaffinity(0) == set(cpus) <= before
        other_thread = thread.native_id
        assert other_thread is not None
        if sys.platform == "linux":
            assert os.sched_getaffinity(other_thread) == set(cpus)
    done.set()
    thread.join()
    assert seen == [before]
    assert os.sched_getaffinity(0) == before


@needs_affinity
def test_a_thread_that_starts_while_pinned_is_free_afterwards() -> None:
    before = os.sched_getaffinity(0)
    done = threading.Event()
    seen: list[set[int]] = []
    thread = threading.Thread(target=lambda: (done.wait(), seen.append(os.sched_getaffinity(0))))
    with pinned(1):
        thread.start()
    done.set()
    thread.join()
    assert seen == [before]


@needs_affinity
def test_more_threads_than_processors_cannot_be_pinned() -> None:
    many = len(os.sched_getaffinity(0)) + 1
    with pytest.raises(BadAttribute, match="may use"), pinned(many):
        pass


# -- the peak ------------------------------------------------------------------------------
@pytest.mark.parametrize("isa", host_isas())
def test_the_peak_grows_with_the_vectors(isa: str) -> None:
    target = Target.of(isa)  # type: ignore[arg-type]
    text = peak.peak_code(target).text
    assert text.count("store") == peak.sums(target)
    assert f"<{target.width('float32')} x float>" in text
    found = peak.measured_peak(target, Store.of(Options().cache_dir), samples=3)
    assert 1e8 < found < 1e13


# -- work and bytes ------------------------------------------------------------------------
def test_products_count_a_multiplication_and_an_addition_each() -> None:
    network = small()
    instance = network.compile(threads=1).cell.instance()
    instance["input"] = np.zeros((3, 16), np.float32)
    instance.compute()
    assert operations(instance) >= 3 * 2 * (16 * 8 + 8 * 4)
    assert operations(instance) < 3 * 2 * (16 * 8 + 8 * 4) + 3 * 50  # biases, the activation


@pytest.mark.parametrize(
    ("build", "shape", "counted"),
    [
        (lambda x: ops.conv(x, np.ones((6, 4, 3, 3), np.float32)), (2, 4, 7, 7), 2 * 300 * 36),
        (lambda x: ops.max_pool(x, [2, 2], strides=[2, 2])[0], (1, 16, 8, 8), 16 * 16 * 4),
        (lambda x: ops.global_average_pool(x), (2, 3, 5, 5), 150),
        (lambda x: ops.softmax(x), (3, 5), 4 * 15),
        (lambda x: ops.tanh(x), (3, 5), 15),
        (lambda x: ops.reduce_sum(x), (3, 5), 15),
        (lambda x: ops.cum_sum(x, np.int64(1)), (3, 5), 15),
        (lambda x: ops.transpose(x), (3, 5), 0),
        (
            lambda x: ops.resize(x, scales=np.float32([1, 1, 2, 2]), mode="linear"),
            (1, 1, 4, 4),
            2 * 2 * (32 + 64),
        ),
    ],
)
def test_kernels_count_their_work(build: object, shape: tuple[int, ...], counted: int) -> None:
    x = ops.variable("x", shape)
    cell = compile_graph(Graph({"y": build(x)}), Options(threads=1))  # type: ignore[operator]
    instance = cell.instance()
    instance["x"] = np.ones(shape, np.float32)
    instance.compute()
    assert operations(instance) == counted


def test_a_profile_has_every_step_once_with_its_bytes() -> None:
    x = ops.variable("x", ("N", 64))
    y = ops.softmax(ops.matmul(x, np.ones((64, 32), np.float32)))
    cell = compile_graph(Graph({"y": y}), Options(threads=1, profile=True))
    instance = cell.instance()
    instance["x"] = np.ones((8, 64), np.float32)
    first, second = profile_instance(instance, runs=3)
    assert (first.op, second.op) == ("MatMul", "Softmax")
    assert first.operations == 2 * 8 * 64 * 32
    assert first.nbytes == 4 * (8 * 64 + 64 * 32 + 8 * 32)
    assert second.nbytes == 4 * 2 * 8 * 32
    assert first.seconds > 0
    assert first.gflops == pytest.approx(first.operations / first.seconds / 1e9)


def test_a_profile_covers_programs_planned_in_parts() -> None:
    x = ops.variable("x", (6,))
    kept = ops.compress(x, x > 0)
    cell = compile_graph(Graph({"y": ops.exp(kept)}), Options(threads=1, profile=True))
    instance = cell.instance()
    instance["x"] = np.array([1, -1, 2, -2, 3, -3], np.float32)
    times = profile_instance(instance, runs=2)
    assert times[0].name != times[-1].name
    assert times[-1].nbytes == 2 * 3 * 4


def test_a_profile_needs_a_timed_program() -> None:
    instance = small().compile(threads=1).cell.instance()
    with pytest.raises(BadAttribute, match=r"compile\(profile=True\)"):
        profile_instance(instance)


def test_steps_are_taken_together_longest_first() -> None:
    times = [
        StepTime("a", "Conv", "conv", 1.0, 10, 5),
        StepTime("b", "Relu", "loop", 4.0, 1, 5),
        StepTime("c", "Conv", "winograd", 2.0, 30, 7),
    ]
    relu_, conv = grouped(times, lambda t: t.op)
    assert (conv.name, conv.seconds, conv.operations, conv.nbytes) == ("Conv", 3.0, 40, 12)
    assert (conv.steps, conv.kernel) == (2, "2 kinds")
    assert relu_.kernel == "loop"


def test_a_program_is_repeated_within_compiled_code() -> None:
    x = ops.variable("x", (4,))
    cell = compile_graph(Graph({"y": x * 2}), Options(threads=1))
    instance = cell.instance()
    instance["x"] = np.arange(4, dtype=np.float32)
    instance.compute()
    instance["x"] = np.full(4, 3, np.float32)
    repeated(instance, 5)()
    assert np.array_equal(instance["y"], np.full(4, 6, np.float32))


def test_what_needs_python_is_not_repeated() -> None:
    x = ops.variable("x", (4,))
    cell = compile_graph(Graph({"y": ops.compress(x, x > 0)}), Options(threads=1))
    instance = cell.instance()
    instance["x"] = np.ones(4, np.float32)
    instance.compute()
    with pytest.raises(ExecutionError, match="needs Python"):
        repeated(instance, 2)


# -- feeds and peers -----------------------------------------------------------------------
def test_the_batch_is_the_free_first_axis() -> None:
    assert batch_feed(small(), 5)["input"].shape == (5, 16)
    assert batch_feed(small())["input"].shape == (1, 16)
    fixed = input((2, 16)) | fully_connected(4) | get_network("fixed")
    assert batch_feed(fixed, 2)["input"].shape == (2, 16)
    with pytest.raises(BadAttribute, match="takes no batch of 3"):
        batch_feed(fixed, 3)
    x = ops.variable("x", (7, "N", 2))
    steps_first = Network(Graph({"y": x + 1}))
    assert batch_feed(steps_first, 3)["x"].shape == (7, 3, 2)


def test_measuring_against_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")
    found = measure(small(), ["onnxruntime"], batch=4, rounds=3)
    ours, theirs = found.sides
    assert found.shapes == {"input": (4, 16)}
    assert theirs.problem == ""
    assert theirs.difference < 1e-5
    assert all(a.holds for a in theirs.agreements)
    assert found.ratio(ours) == 1.0
    assert found.best == found.ratio(theirs) == theirs.timing.median / ours.timing.median
    assert found.share(ours) == found.operations / ours.timing.median / found.peak
    assert json.loads(json.dumps(found.as_dict()))["sides"][1]["name"] == "onnxruntime"


def test_unknown_and_missing_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadAttribute, match="did you mean 'onnxruntime'"):
        measure(small(), ["onnxruntim"])
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(BadAttribute, match="pip install openvino"):
        measure(small(), ["openvino"])


def test_measuring_against_openvino() -> None:
    pytest.importorskip("openvino")
    found = measure(small(), ["openvino"], rounds=1)
    assert found.peers[0].difference < 1e-5


def test_profile_of_a_network() -> None:
    times = profile(small(), batch=2, runs=2)
    assert sum(t.operations for t in times) >= 2 * 2 * (16 * 8 + 8 * 4)


# -- the picture ---------------------------------------------------------------------------
SVG = "{http://www.w3.org/2000/svg}"


def test_the_longest_bar_is_the_longest() -> None:
    bars = [Bar("a", 1.0, "x", "1 us"), Bar("b <&>", 4.0, "y", "4 us"), Bar("c", 2.0, "x")]
    root = ElementTree.fromstring(bar_chart("title <1>", bars))
    drawn = root.findall(f"{SVG}g/{SVG}rect")
    widths = [float(r.attrib["width"]) for r in drawn]
    assert [w / widths[1] for w in widths] == pytest.approx([0.25, 1.0, 0.5], abs=1e-3)
    assert drawn[1].attrib["fill"] == COLOURS[0]  # the kind with most comes first
    assert drawn[0].attrib["fill"] == drawn[2].attrib["fill"] == COLOURS[1]
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert {"title <1>", "b <&>", "y 57 %", "x 43 %", "4 us"} <= set(texts)


def test_charts_of_nothing_of_zeros_and_of_many_kinds() -> None:
    ElementTree.fromstring(bar_chart("empty", []))
    ElementTree.fromstring(bar_chart("zero", [Bar("a", 0.0, "x")]))
    many = [Bar(f"step {i} " + "x" * 60, 1.0, f"kind {i}") for i in range(20)]
    root = ElementTree.fromstring(bar_chart("many", many))
    texts = [str(t.text) for t in root.iter(f"{SVG}text")]
    assert "others 65 %" in texts
    assert any("…" in text and len(text) <= 44 for text in texts)
    width = float(root.attrib["width"])
    assert all(float(r.attrib["x"]) < width for r in root.iter(f"{SVG}rect") if "x" in r.attrib)


def test_shares_are_of_the_total() -> None:
    drawn = bar_chart("part", [Bar("a", 1.0, "x")], total=4.0)
    assert "x 25 %" in drawn
    assert "others 75 %" in drawn


# -- the commands --------------------------------------------------------------------------
@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = input(("N", 4)) | fully_connected(6) | softmax | get_network("small")
    made.save(tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def test_bench_prints_and_writes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    to = file.with_suffix(".json")
    arguments = ["bench", str(file), "--against", "onnxruntime", "--rounds", "3", "--batch", "2"]
    assert main([*arguments, "--json", str(to)]) == 0
    out = capsys.readouterr().out
    assert "small: input [2, 4]" in out
    assert "1 thread" in out
    assert "onnxruntime 1." in out
    assert "peak measured" in out
    made = json.loads(to.read_text())
    assert [len(side["seconds"]) for side in made["sides"]] == [3, 3]
    assert made["sides"][1]["difference"] < 1e-5


@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_bench_takes_a_flow(peer: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(peer)
    flow = file.with_suffix(".flow")
    assert main(["convert", str(file), "-o", str(flow)]) == 0
    assert main(["bench", str(flow), "--against", peer, "--rounds", "1"]) == 0
    assert f"{peer} " in capsys.readouterr().out


def test_bench_says_which_runtimes_there_are(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(file), "--against", "tensorrt"]) == 1
    assert "there are onnxruntime, openvino" in capsys.readouterr().err


@pytest.mark.parametrize("by", ["step", "op", "kernel"])
def test_profile_prints_draws_and_writes(
    by: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg, to = file.with_suffix(".svg"), file.with_suffix(".json")
    arguments = ["profile", str(file), "--by", by, "--runs", "2", "--batch", "3"]
    assert main([*arguments, "--svg", str(svg), "--json", str(to)]) == 0
    out = capsys.readouterr().out
    assert "small: input [3, 4]" in out
    assert "Softmax" in out
    assert "total" in out
    root = ElementTree.parse(svg).getroot()
    steps = json.loads(to.read_text())["steps"]
    assert len(root.findall(f"{SVG}g")) == len(steps) == 2


def test_profile_shows_the_longest(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--runs", "2", "--top", "1"]) == 0
    assert "the 1 longest of 2" in capsys.readouterr().out


# -- the table -----------------------------------------------------------------------------
@pytest.fixture
def bench_table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that makes the table of the README."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "benchmarks"))
    return import_module("bench_table")


def test_the_table_has_rows_and_survives_those_that_fail(
    bench_table: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"resnet50", "mlp, in the cell", "lstm, batch 8"} <= {r.name for r in bench_table.rows()}
    missing = bench_table.Row("no | such row", 1.0, lambda seconds: None)
    found = bench_table.results_of(missing, 1, 0.1)
    assert "StopIteration" in found
    assert bench_table.line(missing, found).endswith("failed: StopIteration |")


def test_a_line_shows_the_median_ratio_with_its_range(bench_table: ModuleType) -> None:
    row = bench_table.Row("some", 1.5, lambda seconds: None)
    made = [bench_table.Result(1.0, r, r, "ms", "onnxruntime", "a note") for r in (1.2, 1.7, 1.6)]
    text = bench_table.line(row, made)
    assert text == (
        "| some | 1 ms | 1.6 ms onnxruntime | **1.60 (1.20 to 1.70)** | 1.50 | a note |"
    )
    assert "1.50 below" in bench_table.line(row, made[:1])


def test_a_row_is_measured_in_a_process_of_its_own(bench_table: ModuleType) -> None:
    pytest.importorskip("onnxruntime")
    row = next(r for r in bench_table.rows() if r.name == "784x10, in the cell")
    (result,) = bench_table.results_of(row, 1, 0.1)
    assert result.unit == "ns"
    assert result.ratio == pytest.approx(result.theirs / result.ours)


def test_the_table_is_put_between_the_marks(bench_table: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = bench_table.MARKS
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    for _ in range(2):
        bench_table.put_into(page, ["| new |"])
        assert page.read_text() == f"before\n{begin}\n\n| new |\n\n{end}\nafter\n"
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="lacks"):
        bench_table.put_into(page, [])


def test_the_readme_has_a_place_for_the_table(bench_table: ModuleType) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    begin, end = (text.index(mark) for mark in bench_table.MARKS)
    assert begin < end
