"""A small BERT: exported by torch, fused by onnxruntime's optimiser of transformers, quantised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from export_checks import agree

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("sympy", reason="sympy, which onnxruntime's optimiser needs, is not installed")
optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
onnxruntime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")
nn = torch.nn

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]
WIDE, HEADS, WORDS = 16, 2, 40


class Layer(nn.Module):  # type: ignore[misc,name-defined]
    """One layer as the usual implementation spells it, which is what the optimiser looks for."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDE, WIDE) for _ in range(3))
        self.attended, self.up, self.down = (
            nn.Linear(WIDE, WIDE),
            nn.Linear(WIDE, 32),
            nn.Linear(32, WIDE),
        )
        self.first, self.second = (nn.LayerNorm(WIDE, eps=1e-12) for _ in range(2))

    def split(self, x: Any) -> Any:
        x = x.view(*x.size()[:-1], HEADS, WIDE // HEADS)
        return x.permute(0, 2, 1, 3)

    def forward(self, x: Any, mask: Any) -> Any:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / (WIDE // HEADS) ** 0.5
        mixed = torch.matmul(nn.functional.softmax(scores + mask, dim=-1), v)
        mixed = mixed.permute(0, 2, 1, 3).contiguous()
        mixed = mixed.view(*mixed.size()[:-2], WIDE)
        x = self.first(self.attended(mixed) + x)
        return self.second(self.down(nn.functional.gelu(self.up(x))) + x)


class Bert(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDE)
        self.places = nn.Embedding(12, WIDE)
        self.kinds = nn.Embedding(2, WIDE)
        self.norm = nn.LayerNorm(WIDE, eps=1e-12)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.register_buffer("order", torch.arange(12).expand(1, -1))

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        mask = attention_mask[:, None, None, :].to(torch.float32)
        mask = (1.0 - mask) * -10000.0
        x = self.words(input_ids) + self.kinds(token_type_ids)
        x = self.norm(x + self.places(self.order[:, : input_ids.size(1)]))
        for layer in self.layers:
            x = layer(x, mask)
        return x


def exported(path: Path) -> tuple[list[Any], Any]:
    torch.manual_seed(1)
    model = Bert().eval()
    ids = torch.randint(0, WORDS, (2, 6))
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    kinds = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    names = ["input_ids", "attention_mask", "token_type_ids"]
    free = {name: {0: "batch", 1: "length"} for name in names}
    torch.onnx.export(
        model, (ids, mask, kinds), path, dynamo=False, opset_version=14, input_names=names,
        output_names=["y"], dynamic_axes=free,
    )  # fmt: skip
    with torch.no_grad():
        wanted = model(ids, mask, kinds).numpy()
    return [t.numpy() for t in (ids, mask, kinds)], wanted


def test_fused_by_the_optimiser_of_transformers(tmp_path: Path) -> None:
    feeds, wanted = exported(tmp_path / "bert.onnx")
    agree(tmp_path / "bert.onnx", feeds, [wanted])
    made = optimizer.optimize_model(
        str(tmp_path / "bert.onnx"), "bert", num_heads=HEADS, hidden_size=WIDE, opt_level=0
    )
    found = {node.op_type for node in made.model.graph.node if node.domain}
    assert found >= {"Attention", "SkipLayerNormalization", "EmbedLayerNormalization"}, found
    named = dict(zip(("input_ids", "attention_mask", "token_type_ids"), feeds, strict=True))
    inputs = [named[value.name].astype(np.int32) if value.type.tensor_type.elem_type == 6
              else named[value.name] for value in made.model.graph.input]  # fmt: skip
    agree(made.model, inputs, [wanted], rtol=1e-3, atol=1e-4)
    made.change_graph_inputs_to_int32()
    made.save_model_to_file(str(tmp_path / "fused.onnx"))
    agree(tmp_path / "fused.onnx", [f.astype(np.int32) for f in inputs], [wanted], rtol=1e-3)
    quantised = tmp_path / "quantised.onnx"
    float_type = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    quantization.quantize_dynamic(tmp_path / "fused.onnx", quantised, extra_options=float_type)
    kinds = {node.op_type for node in onnx.load(quantised).graph.node}
    assert "QAttention" in kinds, kinds
    session = onnxruntime.InferenceSession(str(quantised))
    small = [f.astype(np.int32) for f in inputs]
    feed = {port.name: f for port, f in zip(session.get_inputs(), small, strict=True)}
    # A value that falls to the other side of a rounding differs by a 255th of its range.
    agree(quantised, small, session.run(None, feed), rtol=0, atol=4 / 255)
