"""The language of `--task`: what it says, what it refuses, and whether that fits the outputs of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from onnxq.base.errors import UserError
from onnxq.graph.model import Model
from onnxq.graph.types import value_info
from onnxq.graph.view import Tensor
from onnxq.task.fits import fitted
from onnxq.task.layout import (
    Boxes,
    CandidateColumns,
    Classes,
    Image,
    Layout,
    MultiLabel,
    PixelClasses,
    Spans,
    Tokens,
)
from onnxq.task.stated import NAMED, TASKS, StatedTask

F, WHOLE = np.dtype(np.float32), np.dtype(np.int64)
PICTURE = [("x", F, (1, 3, 64, 64))]
WORDS = [("ids", WHOLE, ("B", "S")), ("attention_mask", WHOLE, ("B", "S"))]
JOINED = [("y", F, (1, 84, 12))]
TWO = [("boxes", F, (1, 12, 4)), ("scores", F, (1, 12, 3))]
CELLS = [(f"{kind}_{stride}", F, (1, (64 // stride) ** 2, size))
         for kind, size in (("box", 4), ("cls", 2), ("obj", 1)) for stride in (8, 16)]  # fmt: skip


def tensors(entries: list[Any]) -> tuple[Tensor, ...]:
    """Tensors of a name, a type and a shape each."""
    infos = [value_info(*entry) for entry in entries]
    return Model.open(onnx.helper.make_model(onnx.helper.make_graph([], "g", infos, infos))).inputs


def bound(text: str, outputs: list[Any], inputs: list[Any] = PICTURE) -> Layout:
    return fitted(StatedTask.of(text), tensors(outputs), tensors(inputs))


@pytest.mark.parametrize(
    ("text", "outputs", "layout"),
    [
        ("classify", [("y", F, (1, 10))], Classes("y")),
        ("classify:scores=b", [("a", F, (1, 4)), ("b", F, None)], Classes("b")),
        ("classify:sigmoid", [("y", F, (1, 1))], MultiLabel("y")),
        ("classify:scores=b,logits", [("a", F, (1, 4)), ("b", F, (24,))], MultiLabel("b", 0.0)),
        ("segment", [("y", F, (1, 5, 8, 8))], PixelClasses("y", 1)),
        ("segment:axis=3", [("y", F, (1, 8, 8, 5))], PixelClasses("y", 3)),
        ("segment", [("y", WHOLE, (1, 8, 8))], PixelClasses("y", None)),
        ("segment:sigmoid", [("y", F, (1, 1, 8, 8))], PixelClasses("y", None, 0.5)),
        ("segment:logits", [("y", F, (1, 1, 8, 8))], PixelClasses("y", None, 0.0)),
        (
            "detect:boxes=0:4,scores=4:,cxcywh,BCN",
            JOINED,
            Boxes(CandidateColumns(("y",), 0, 4), CandidateColumns(("y",), 4), form="cxcywh", by_column=True),
        ),
        (
            "detect:yolov8",
            JOINED,
            Boxes(CandidateColumns(("y",), 0, 4), CandidateColumns(("y",), 4), form="cxcywh", by_column=True),
        ),
        (
            "detect:yolov8,scores=4:6,nms=0.7",
            JOINED,
            Boxes(
                CandidateColumns(("y",), 0, 4),
                CandidateColumns(("y",), 4, 6),
                form="cxcywh",
                by_column=True,
                nms=0.7,
            ),
        ),
        (
            "detect:yolov10",
            [("y", F, (1, 30, 6))],
            Boxes(
                CandidateColumns(("y",), 0, 4),
                CandidateColumns(("y",), 4, 5),
                label=CandidateColumns(("y",), 5, 6),
                nms=None,
            ),
        ),
        (
            "detect:boxes=y[0:4],scores=y[4:80],cxcywh,BCN",
            [*JOINED, ("protos", F, (1, 32, 8, 8))],
            Boxes(
                CandidateColumns(("y",), 0, 4), CandidateColumns(("y",), 4, 80), form="cxcywh", by_column=True
            ),
        ),
        (
            "detect:boxes=boxes,scores=scores,xyxy,background=0",
            TWO,
            Boxes(CandidateColumns(("boxes",)), CandidateColumns(("scores",)), background=0),
        ),
        (
            "detect:boxes=boxes,scores=scores,cxcywh,softmax,background=last,nms=off",
            TWO,
            Boxes(
                CandidateColumns(("boxes",)),
                CandidateColumns(("scores",)),
                form="cxcywh",
                activation="softmax",
                background=-1,
                nms=None,
            ),
        ),
        (
            "detect:boxes=box_*,scores=cls_*,objectness=obj_8+obj_16,offsets,power=0.5,strides=8+16",
            CELLS,
            Boxes(
                CandidateColumns(("box_8", "box_16")),
                CandidateColumns(("cls_8", "cls_16")),
                CandidateColumns(("obj_8", "obj_16")),
                form="offsets",
                power=0.5,
                strides=(8, 16),
                image=Image("x", 2),
            ),
        ),
        (
            "detect:boxes=b:0,scores=s:0,xyxy",
            [("b:0", F, ("N", 4)), ("s:0", F, ("N", 3))],
            Boxes(CandidateColumns(("b:0",)), CandidateColumns(("s:0",))),
        ),
        (
            "detect:nanodet-plus",
            [("y", F, (1, 85, 112))],
            Boxes(
                CandidateColumns(("y",), -32),
                CandidateColumns(("y",), 0, -32),
                form="ltrb",
                strides=(8, 16, 32, 64),
                centre=0.0,
                image=Image("x", 2),
            ),
        ),
    ],
)
def test_a_layout_that_fits(text: str, outputs: list[Any], layout: Layout) -> None:
    assert bound(text, outputs) == layout


def test_of_words_the_mask_is_the_input_that_is_called_so() -> None:
    logits = [("logits", F, ("B", "S", 100))]
    assert bound("tokens", logits, WORDS) == Tokens("logits", "attention_mask")
    assert bound("tokens:mask=ids", logits, WORDS) == Tokens("logits", "ids")
    ends = [("s", F, ("B", "S")), ("e", F, ("B", "S"))]
    assert bound("spans:start=s,end=e", ends, WORDS) == Spans("s", "e", "attention_mask")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("detects", "there is no task 'detects'"),
        ("detect:boxs=0:4", "there is no 'boxs'"),
        ("detect:yolov99", "'yolov99' is no word of it"),
        ("detect:xyxy,cxcywh", "form is said twice"),
        ("detect:boxes=0:4,boxes=1:5", "boxes is said twice"),
        ("detect:boxes=", "'boxes' has no value"),
        ("detect:boxes=0:4,scores=4:,xyxy,nms=2", "nms=2 is no number from 0 to 1"),
        ("detect:boxes=0:4,scores=4:,ltrb,strides=a", "strides=a is not whole"),
        ("classify:softmax", "'softmax' is no word of it"),
        ("spans:start=y", "the output of end is not said"),
        ("detect", "boxes and scores are not both said"),
        ("detect:boxes=0:4,scores=4:", "what four columns of a box are"),
        ("detect:boxes=0:4,scores=4:,ltrb,BCN", "need the strides"),
        ("detect:boxes=0:4,scores=4:,xyxy,strides=8", "have no strides"),
        ("detect:boxes=0:5,scores=5:,xyxy,BCN", "boxes have 5 columns, and 4 are needed for xyxy"),
        ("detect:boxes=0:4,scores=90:,xyxy,BCN", "'y' has 84 columns"),
        ("detect:boxes=0:4,scores=12:,xyxy", "'y' has 12 columns"),
        ("detect:boxes=0:4,scores=4:5,xyxy,BCN,background=0", "no class is left"),
        ("detect:boxes=0:4,scores=5:,objectness=4:6,xyxy,BCN", "objectness has 2 columns"),
        ("detect:boxes=0:4,scores=5:,label=4,xyxy,BCN", "scores have 79 columns beside a label"),
        ("detect:boxes=0:4,scores=4:,xyxy,BCN,power=0.5", "there is none"),
        ("detect:boxes=z,scores=4:,xyxy", "there is no output 'z'"),
        ("detect:yolox,BCN", "12 candidates, and 84 cells"),
        ("tokens", "is to be"),
        ("segment:axis=4", "axis=4 is none of 3 axes"),
    ],
)
def test_a_layout_that_is_refused(text: str, words: str) -> None:
    outputs = [("y", F, (1, 84, 12))] if text != "tokens" else [("y", F, (1, 84))]
    with pytest.raises(UserError) as refused:
        bound(text, outputs)
    assert words in str(refused.value)
    assert refused.value.exit_code == 2
    assert refused.value.hint


def test_outputs_that_do_not_go_together_are_refused() -> None:
    text = "detect:boxes=boxes,scores=scores,xyxy"
    with pytest.raises(UserError, match="12 of boxes, 11 of scores"):
        bound(text, [TWO[0], ("scores", F, (1, 11, 3))])
    with pytest.raises(UserError, match="holds no scores: its type is int64"):
        bound(text, [TWO[0], ("scores", WHOLE, (1, 12, 3))])
    with pytest.raises(UserError, match="which of 2 outputs is meant"):
        bound("classify", TWO)
    with pytest.raises(UserError, match="no input is one"):
        bound("detect:yolox", [("y", F, (1, 84, 9))], WORDS)
    with pytest.raises(UserError, match="one channel along axis 1"):
        bound("segment", [("y", F, (1, 1, 8, 8))])


def test_each_named_layout_is_understood() -> None:
    for name in NAMED:
        assert StatedTask.of(f"detect:{name}").sources
    assert all(StatedTask.of(task).task == task for task in TASKS)
