"""Myelin's .flow files: what is in them, read and written."""

from __future__ import annotations

from neuralsym.engines.flow.flow import Flow
from neuralsym.engines.flow.parts import (
    BATCH,
    Blob,
    Connector,
    Function,
    FunctionFlag,
    Operation,
    OperationFlag,
    Variable,
    VariableFlag,
)

__all__ = [
    "BATCH",
    "Blob",
    "Connector",
    "Flow",
    "Function",
    "FunctionFlag",
    "Operation",
    "OperationFlag",
    "Variable",
    "VariableFlag",
]
