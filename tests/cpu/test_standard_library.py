"""The table of operators says what the modules of kernels enter, which are imported late."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from neuralsym.core.leaves import OWN
from neuralsym.cpu import kernels
from neuralsym.cpu.kernels import OPERATORS, entered_by, standard_library
from neuralsym.cpu.library import Library


def test_the_table_lists_what_each_module_enters() -> None:
    for module, operators in OPERATORS.items():
        library = entered_by(module)
        assert list(dict.fromkeys(op for _, op in library._kernels)) == operators.split(), module
        assert not list(library.transformers()) and not library._typers, module


def test_every_module_that_enters_kernels_is_listed() -> None:
    for file in Path(kernels.__file__).parent.glob("*.py"):
        if file.stem != "__init__" and "\ndef register(" in file.read_text(encoding="utf-8"):
            assert file.stem in OPERATORS


def test_what_is_entered_last_is_tried_first() -> None:
    found = list(standard_library().kernels("MaxPool"))
    assert found == [
        *entered_by("int8_pool").kernels("MaxPool"),
        *entered_by("pool").kernels("MaxPool"),
    ]
    first = next(standard_library().kernels("FusedConv", OWN))
    assert first.name == "winograd conv"
    assert not list(standard_library().kernels("Relu")) and not list(standard_library().kernels(""))
    own = Library.default()
    own.kernel("MaxPool")(found[-1])
    assert list(own.kernels("MaxPool")) == [found[-1], *found]


def test_a_graph_imports_the_modules_of_its_operators_alone() -> None:
    program = """
import sys
import numpy as np
from neuralsym import Network
from neuralsym.layers import fully_connected, get_network, input
(input(("N", 3)) | fully_connected(2) | get_network("n")).run(np.ones((1, 3), np.float32))
print(*sorted(name for name in sys.modules if name.startswith("neuralsym.cpu.kernels.")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    names = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert "matmul" in names and not names & {"recurrent", "signal", "roi", "attention", "conv"}
