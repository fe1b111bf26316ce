"""Object detection: regions pooled, boxes suppressed, pictures decoded."""

from __future__ import annotations

from neuralsym.core.op import Call
from neuralsym.core.types import TensorType, Type
from neuralsym.dtypes import NumberType
from neuralsym.ops.base import (
    Generator,
    Window,
    check_choice,
    check_range,
    check_rank,
    check_single,
)
from neuralsym.ops.shapes import merged

_LARGEST_GRID = 2**24


class RoiAlign(Window):
    """Regions of a feature map resampled to one size (arXiv 1703.06870)."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "mode", ("avg", "max"))
        check_choice(call, "coordinate_transformation_mode", ("half_pixel", "output_half_pixel"))
        check_range(call, "output_height", 1, _LARGEST_GRID)
        check_range(call, "output_width", 1, _LARGEST_GRID)
        check_range(call, "sampling_ratio", 0, _LARGEST_GRID)
        for i, rank in enumerate((4, 2, 1)):
            check_rank(call, i, rank, rank)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        x, rois, batch = call.shape(0), call.shape(1), call.shape(2)
        if rois is not None and isinstance(rois[1], int) and rois[1] != 4:
            call.fail(f"rois has {rois[1]} columns, a box has 4 corners")
        count = merged(
            call,
            rois[0] if rois is not None else None,
            batch[0] if batch is not None else None,
            "a batch index for each region: axis 0 of rois and batch_indices",
        )
        channels = x[1] if x is not None else None
        grid = (call.attr("output_height"), call.attr("output_width"))
        return [TensorType(call.dtype(0), (count, channels, *grid))]


class NonMaxSuppression(Window):
    """[batch, class, box] of the boxes kept after dropping those that overlap better ones."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "center_point_box", (0, 1))
        check_rank(call, 0, 3, 3)
        check_rank(call, 1, 3, 3)
        boxes, scores = call.shape(0), call.shape(1)
        if boxes is not None and isinstance(boxes[2], int) and boxes[2] != 4:
            call.fail(f"boxes has {boxes[2]} columns, a box has 4 corners")
        if boxes is not None and scores is not None:
            merged(call, boxes[0], scores[0], "batch of boxes and scores")
            merged(call, boxes[1], scores[2], "a score for each box: axis 2 of scores")
        for i in range(2, 5):
            check_single(call, i)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        return [TensorType(NumberType.INT64, (None, 3))]


class ImageDecoder(Generator):
    """The pixels [height, width, channels] of an encoded picture."""

    @classmethod
    def check(cls, call: Call) -> None:
        check_choice(call, "pixel_format", ("RGB", "BGR", "Grayscale"))
        check_rank(call, 0, 1, 1)

    @classmethod
    def infer(cls, call: Call) -> list[Type]:
        channels = 1 if call.attr("pixel_format") == "Grayscale" else 3
        return [TensorType(NumberType.UINT8, (None, None, channels))]
