"""Files that torch.onnx writes, by both of its exporters, against torch itself."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from export_checks import agree

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("onnxscript", reason="onnxscript, which torch.onnx needs, is not installed")
nn = torch.nn
functional = torch.nn.functional

pytestmark = [pytest.mark.exporters, pytest.mark.filterwarnings("ignore")]


class Of(nn.Module):  # type: ignore[misc,name-defined]
    """A function as a module."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        parts = dict(self.named_children())
        return self.function(*inputs, **parts)


class Block(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, 8, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.two = nn.Conv2d(8, 8, 3, 1, 1, groups=8)
        self.short = nn.Conv2d(channels, 8, 1, stride)

    def forward(self, x: Any) -> Any:
        y = functional.relu(self.norm(self.one(x)), inplace=True)
        return functional.hardswish(self.two(y) + self.short(x))


class Attention(nn.Module):  # type: ignore[misc,name-defined]
    """A causal transformer over tokens, with rotary positions and a key-value cache."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 50, bias=False)

    def forward(self, ids: Any, past: Any) -> Any:
        x = self.norm(self.tokens(ids))
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(batch, length, 2, 8).transpose(1, 2) for t in (q, k, v))
        k = torch.cat([past[0], k], dim=2)
        v = torch.cat([past[1], v], dim=2)
        places = torch.arange(k.shape[2])
        mask = places[None, :] <= (places[-length:])[:, None]
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = self.out(y.transpose(1, 2).reshape(batch, length, 16))
        return self.head(x + y), torch.stack([k, v])


def indices(x: Any, at: Any) -> Any:
    top, where = torch.topk(x, 2, dim=1)
    added = torch.zeros_like(x).scatter_add(1, at, x)
    summed = torch.cumsum(x, 1) + torch.einsum("ij,ik->ij", x, x * 2)
    chosen = torch.where(x > 0, x.clamp(max=0.5), x.gather(1, at))
    return top, where, added, summed, chosen[:, 1::2], x[:, [0, 2]].std(1)


def images(x: Any) -> Any:
    up = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
    near = functional.interpolate(x, size=(7, 5), mode="nearest")
    shuffled = functional.pixel_shuffle(x, 2)
    padded = functional.pad(x, (1, 2, 0, 1), mode="reflect")
    grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, 3), torch.linspace(-1, 1, 4)), -1)
    sampled = functional.grid_sample(x, grid.expand(x.shape[0], 3, 4, 2), align_corners=False)
    return up, near, shuffled, padded, sampled, functional.adaptive_avg_pool2d(x, (1, 3))


class Recurrent(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 6, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(12, 4)
        self.rnn = nn.RNN(4, 3, nonlinearity="relu")

    def forward(self, x: Any) -> Any:
        y, (h, c) = self.lstm(x)
        y, g = self.gru(y.transpose(0, 1))
        return self.rnn(y)[0], h, c, g


def mask_select(x: Any) -> Any:
    kept = x[x > 0]
    return kept.sort()[0], torch.nonzero(x), kept.sum()


def model(name: str) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(3)
    r = torch.randn
    made: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
        "dense": lambda: (
            nn.Sequential(
                nn.Linear(6, 8),
                nn.GELU(),
                nn.Dropout(0.5),
                nn.LayerNorm(8),
                nn.Linear(8, 3),
                nn.LogSoftmax(-1),
            ),
            (r(4, 6),),
        ),
        "convolutions": lambda: (
            nn.Sequential(
                Block(3, 2),
                Block(8, 1),
                nn.MaxPool2d(3, 2, 1, ceil_mode=True),
                nn.Flatten(),
                nn.LazyLinear(4),
            ),
            (r(2, 3, 15, 13),),
        ),
        "transposed": lambda: (
            nn.Sequential(
                nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1),
                nn.GroupNorm(3, 6),
                nn.SiLU(),
                nn.InstanceNorm2d(6, affine=True),
                nn.PReLU(6),
                nn.AvgPool2d(2, padding=1),
            ),
            (r(2, 4, 5, 4),),
        ),
        "one_dimension": lambda: (
            nn.Sequential(
                nn.Conv1d(3, 4, 3, padding="same", dilation=2),
                nn.BatchNorm1d(4),
                nn.ELU(),
                nn.AdaptiveAvgPool1d(1),
                nn.Flatten(),
                nn.Softplus(),
            ),
            (r(2, 3, 9),),
        ),
        "recurrent": lambda: (Recurrent(), (r(2, 7, 5),)),
        "encoder": lambda: (
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu"),
            (r(2, 5, 8),),
        ),
        "attention": lambda: (Attention(), (torch.randint(0, 50, (2, 3)), r(2, 2, 2, 4, 8))),
        "indices": lambda: (Of(indices), (r(3, 4), torch.randint(0, 4, (3, 4)))),
        "images": lambda: (Of(images), (r(2, 4, 5, 6),)),
        "half": lambda: (nn.Sequential(nn.Linear(6, 5), nn.Tanh()).half(), (r(3, 6).half(),)),
        "selected": lambda: (Of(mask_select), (r(3, 4),)),
    }
    network, inputs = made[name]()
    network.eval()
    with torch.no_grad():  # lazy layers learn their sizes; running statistics are not trivial
        network(*inputs)
        for part in network.modules():
            if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
                part.running_mean.normal_(0, 0.3)
                part.running_var.uniform_(0.5, 1.5)
    return network, inputs


NAMES = [
    *("dense", "convolutions", "transposed", "one_dimension", "recurrent", "encoder"),
    *("attention", "indices", "images", "half", "selected"),
]


def results(network: Any, inputs: Any) -> list[Any]:
    with torch.no_grad():
        made = network(*inputs)
    return [t.numpy() for t in (made if isinstance(made, (tuple, list)) else [made])]


def export(network: Any, inputs: Any, **settings: Any) -> bytes:
    if settings.get("dynamo"):
        program = torch.onnx.export(network, inputs, verbose=False, **settings)
        return bytes(program.model_proto.SerializeToString())
    file = io.BytesIO()
    torch.onnx.export(network, inputs, file, **settings)
    return file.getvalue()


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
@pytest.mark.parametrize("name", NAMES)
def test_models(name: str, dynamo: bool) -> None:
    if name == "encoder" and not dynamo:
        pytest.skip("the TorchScript exporter fails on nn.TransformerEncoderLayer itself")
    network, inputs = model(name)
    file = export(network, inputs, dynamo=dynamo)
    rough = {"rtol": 2e-3, "atol": 2e-3} if name == "half" else {}
    agree(file, [t.numpy() for t in inputs], results(network, inputs), **rough)


@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "torchscript"])
def test_sizes_that_are_free(dynamo: bool) -> None:
    network, inputs = model("encoder" if dynamo else "recurrent")
    if dynamo:
        batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
        more: dict[str, Any] = {"dynamic_shapes": (({0: batch, 1: length}),)}
    else:
        more = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch", 1: "length"}}}
    file = export(network, inputs, dynamo=dynamo, **more)
    for shape in ((2, 5), (1, 1), (3, 9)):
        x = torch.randn(*shape, inputs[0].shape[-1])
        agree(file, [x.numpy()], results(network, [x]))


@pytest.mark.parametrize("opset", [9, 11, 13, 17])
def test_older_opsets(opset: int) -> None:
    network, inputs = model("convolutions" if opset > 9 else "dense")
    file = export(network, inputs, dynamo=False, opset_version=opset)
    agree(file, [t.numpy() for t in inputs], results(network, inputs))


def scripted(x, n: int):  # type: ignore[no-untyped-def]
    for i in range(n):
        if bool(x.sum() > 10):
            x = x - i
        else:
            x = x * 2 + 1
    return x


def test_control_flow() -> None:
    loop = torch.jit.script(scripted)

    class Steps(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x):  # type: ignore[no-untyped-def]
            return loop(x, 5)

    network = torch.jit.script(Steps())
    x = torch.tensor([0.5, 1.5, -1])
    agree(export(network, (x,), dynamo=False), [x.numpy()], results(network, [x]))


def test_weights_apart(tmp_path: Any) -> None:
    network, inputs = model("dense")
    path = tmp_path / "m.onnx"
    torch.onnx.export(network, inputs, path, dynamo=True, external_data=True, verbose=False)
    assert np.any([p.suffix == ".data" for p in tmp_path.iterdir()])
    agree(path, [t.numpy() for t in inputs], results(network, inputs))
