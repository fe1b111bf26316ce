"""The `neuralsym` command.

Exit status: 0 done, 1 something failed or outputs differ, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module

from neuralsym import __version__
from neuralsym.errors import NeuralsymError

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit status."""
    parser = make_parser()
    given = parser.parse_args(argv)
    if not hasattr(given, "command"):
        parser.print_help()
        return 2
    module, _, function = given.command.partition(":")
    command: Command = getattr(import_module(f"neuralsym.cli.{module}"), function)
    format_warning, warnings.formatwarning = warnings.formatwarning, _warning
    try:
        status = command(given)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (NeuralsymError, OSError) as error:
        print(f"neuralsym: error: {error}", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(f"neuralsym: error: there is not enough memory: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("neuralsym: stopped", file=sys.stderr)
        return 130
    finally:
        warnings.formatwarning = format_warning


def _warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,
) -> str:
    return f"neuralsym: warning: {message}\n"


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="neuralsym", description="Define, export, inspect and run neural networks on the CPU."
    )
    parser.add_argument("--version", action="version", version=f"neuralsym {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    demo = _add(commands, "demo", "demo:run", "define, save, run and check a small network")
    demo.add_argument(
        "-o", "--output", help="the file (mnist.onnx, or mnist_1.onnx where another is called so)"
    )

    zoo = commands.add_parser("zoo", help="list and show the networks of the zoo")
    of_zoo = zoo.add_subparsers(metavar="COMMAND", required=True)
    listing = _add(of_zoo, "list", "zoo:list_models", "list the networks")
    listing.add_argument("pattern", nargs="?", default="*", help='such as "resnet*"')
    listing.add_argument(
        "--sort",
        choices=("name", "parameters", "macs", "input", "accuracy"),
        default="name",
        help="the order: by name, the smallest first, or the most accurate first",
    )
    show = _add(of_zoo, "show", "zoo:show_model", "show one network")
    show.add_argument("name", help="a name of the list")

    export = _add(commands, "export", "zoo:export", "write a network of the zoo to a file")
    export.add_argument("name", help="a name of `neuralsym zoo list`")
    export.add_argument("-o", "--output", required=True, metavar="FILE", help=".onnx or .flow")
    export.add_argument("--batch", default="N", help="a size, or a name to leave it free (N)")
    export.add_argument("--classes", type=_positive, help="number of classes")
    export.add_argument("--size", type=_positive, help="height and width of the input")
    export.add_argument("--softmax", action="store_true", help="give probabilities, not logits")
    export.add_argument("--seed", type=int, default=0, help="of the random weights (0)")
    export.add_argument(
        "--weights",
        metavar="FILE",
        help="trained weights: .pth, .safetensors, .npz, .h5, .keras or .onnx",
    )
    export.add_argument("--opset", type=_positive, help="the ONNX opset (lowest from 18 on)")
    _dtype(export)

    convert = _add(
        commands, "convert", "convert:convert", "write a model as .onnx or .flow, in other numbers"
    )
    _model(convert)
    convert.add_argument("-o", "--output", required=True, metavar="FILE", help=".onnx or .flow")
    convert.add_argument("--opset", type=_positive, help="the ONNX opset (lowest from 18 on)")
    _dtype(convert)

    run = _add(commands, "run", "models:run", "run a model on an input")
    _model(run)
    source = run.add_mutually_exclusive_group()
    source.add_argument(
        "--input",
        action="append",
        metavar="[NAME=]FILE",
        help="a .npy file or an image; NAME= where there are several inputs",
    )
    source.add_argument("--random", action="store_true", help="random input")
    _dims(run)
    run.add_argument("--top", type=_positive, metavar="K", help="show the K largest values")
    run.add_argument("-o", "--output", metavar="FILE", help="write the outputs as .npz")
    run.add_argument("--threads", type=_positive, help="workers (as many as the machine allows)")

    summary = _add(commands, "summary", "models:summary", "show layers, parameters and MACs")
    _model(summary)

    draw = _add(commands, "draw", "draw:draw", "draw a model as an .svg, .html or .dot file")
    _model(draw)
    draw.add_argument(
        "-o", "--output", required=True, metavar="FILE", help=".svg, .html (opens and closes), .dot"
    )
    draw.add_argument(
        "--depth",
        type=_whole,
        metavar="N",
        help="how many levels of scopes are opened (what fits a page; .dot: all)",
    )

    compare = _add(
        commands,
        "compare",
        "models:compare",
        "compare outputs with onnxruntime or onnx's reference",
    )
    _model(compare)
    compare.add_argument("--input", action="append", metavar="[NAME=]FILE", help="a .npy or image")
    compare.add_argument("--reference", choices=("onnxruntime", "onnx"), help="the other runtime")
    compare.add_argument("--rtol", type=float, help="tolerance relative to each value")
    compare.add_argument("--atol", type=float, help="absolute tolerance")
    compare.add_argument("--seed", type=int, default=0, help="of the random input (0)")
    _dims(compare)

    bench = _add(
        commands,
        "bench",
        "bench:bench",
        "measure how fast a model runs, alone or in turn with other runtimes",
    )
    _model(bench)
    _measuring(bench)
    bench.add_argument(
        "--against", metavar="NAME,...", help="other runtimes: onnxruntime, openvino"
    )
    bench.add_argument("--seconds", type=float, default=10.0, help="of all sides together (10)")
    bench.add_argument("--rounds", type=_positive, help="so many rounds, whatever they take")
    bench.add_argument(
        "--clock",
        choices=("cpu", "wall"),
        help="the process's CPU time (as with one thread) or the wall's (as with several)",
    )
    bench.add_argument(
        "--spinning",
        action="store_true",
        help="let onnxruntime's workers spin when idle: its own default, but on shared cores they "
        "slow down the side whose turn it is",
    )

    profile = _add(
        commands, "profile", "profile:show", "show and draw where the time of a run goes"
    )
    _model(profile)
    _measuring(profile)
    profile.add_argument("--runs", type=_positive, default=20, help="timed runs (20)")
    profile.add_argument(
        "--by", choices=("step", "op", "kernel"), default="step", help="a row for each (step)"
    )
    profile.add_argument("--top", type=_positive, metavar="K", help="the K longest rows")
    profile.add_argument("--svg", metavar="FILE", help="draw a bar chart")

    doctor = _add(commands, "doctor", "machine:doctor", "show versions, CPU, threads and cache")
    doctor.add_argument(
        "--ops",
        nargs="?",
        const="*",
        metavar="PATTERN",
        help='every operator, or those like "Reduce*": the versions read, how it runs',
    )
    doctor.add_argument(
        "--cases", action="store_true", help="with --ops: run onnx's suite and count its cases"
    )
    doctor.add_argument("--write", metavar="FILE", help="with --ops: write the table as Markdown")
    warmup = _add(
        commands, "warmup", "models:warmup", "compile a model file now, for later processes to run"
    )
    _model(warmup)
    warmup.add_argument("--threads", type=_positive, help="of the later runs (all cores)")
    _dims(warmup, "the size of a free dimension of the later runs (1)")
    cache = commands.add_parser("cache", help="the store of compiled kernels")
    of_cache = cache.add_subparsers(metavar="COMMAND", required=True)
    _add(of_cache, "info", "machine:cache_info", "where it is and how large")
    _add(of_cache, "clear", "machine:cache_clear", "remove every compiled kernel")
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    command: str,
    what: str,
) -> argparse.ArgumentParser:
    made = commands.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
    made.set_defaults(command=command)
    return made


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", help="an .onnx or .flow file, or a name of the zoo (random weights)"
    )


def _dtype(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16", "int8"),
        default="float32",
        help="of weights and arithmetic; int8 needs --calibrate",
    )
    parser.add_argument(
        "--calibrate",
        metavar="DATA",
        help="samples for int8: a folder of images, an .npy, or an .npz by input (and `labels`)",
    )
    parser.add_argument(
        "--method",
        choices=("minmax", "percentile"),
        default="minmax",
        help="the ranges for int8: all values seen, or 99.99 %% of them (%(default)s)",
    )


def _dims(
    parser: argparse.ArgumentParser, what: str = "the size of a free dimension of a random input"
) -> None:
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help=what,
    )


def _measuring(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=_positive, default=1, help="pinned, as many a side (1)")
    parser.add_argument("--batch", type=_positive, help="size of a free first axis (1)")
    parser.add_argument("--seed", type=int, default=0, help="of the random input (0)")
    _dims(parser)
    parser.add_argument("--json", metavar="FILE", help="write all numbers")


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive whole number")
    return int(text)
