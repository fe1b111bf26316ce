"""The templates' texts are assembled for 64-bit Arm, which this machine need not be."""

import pytest

from neuralsym.cpu.emit import Code, compile_object
from neuralsym.cpu.machine import Target
from neuralsym.cpu.templates.attention import AttentionText, attention_text, pack_keys_text
from neuralsym.cpu.templates.conv import conv_text
from neuralsym.cpu.templates.conv_plan import ConvShape, plan_conv
from neuralsym.cpu.templates.depthwise import plan_depthwise
from neuralsym.cpu.templates.epilogue import relu
from neuralsym.cpu.templates.global_pool import GlobalPoolText, global_pool_text
from neuralsym.cpu.templates.layout import Plane
from neuralsym.cpu.templates.matmul import matmul_text
from neuralsym.cpu.templates.matmul_plan import plan_matmul
from neuralsym.cpu.templates.matvec import MatvecText, matvec_text
from neuralsym.cpu.templates.pool import PoolShape, plan_pool, pool_text
from neuralsym.cpu.templates.reorder import ReorderText, reorder_text
from neuralsym.cpu.templates.softmax import SoftmaxText, softmax_text
from neuralsym.cpu.templates.turn import TurnText, turn_text

PLANE = Plane(32, (1, 14, 14), 4, (0, 1, 1), (0, 1, 1))
EDGE = {"before": (0, 1, 1), "after": (0, 1, 1)}
OPTIONS = {"width": 4, "registers": 32, "activation": relu()}

TEXTS = {
    "conv": lambda: conv_text(
        plan_conv(ConvShape(32, 32, (1, 3, 3), **EDGE), PLANE, PLANE, **OPTIONS).text
    ),
    "depthwise": lambda: conv_text(
        plan_depthwise(
            ConvShape(32, 32, (1, 3, 3), groups=32, **EDGE), PLANE, PLANE, **OPTIONS
        ).text
    ),
    "pool": lambda: pool_text(plan_pool(PoolShape((1, 2, 2), (1, 2, 2)), PLANE, "max")),
    "global pool": lambda: global_pool_text(GlobalPoolText(4, "average")),
    "block": lambda: reorder_text(ReorderText(4, "block")),
    "unblock": lambda: reorder_text(ReorderText(4, "unblock")),
    "softmax": lambda: softmax_text(SoftmaxText(4, "float", True, False)),
    "turn": lambda: turn_text(TurnText("any", 4, 16)),
    "split": lambda: turn_text(TurnText("split", 1, 16, 3)),
    "attention": lambda: attention_text(AttentionText(4, 6, 20, 12, True, "bool")),
    "packed keys": lambda: pack_keys_text(AttentionText(4, 6, 20, 12)),
    "column": lambda: matvec_text(MatvecText(4, "float")),
    "matmul": lambda: matmul_text(plan_matmul(None, b="columns", bias=True, **OPTIONS)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_assembled(name):
    assert compile_object(Code(name, "kernel", TEXTS[name]()), Target.foreign("neon"))
