"""What a model is for, by its graph: made-up heads, and the corpus's models, which of them are understood."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from onnxq.graph.model import Model
from onnxq.graph.recurrence import begins
from onnxq.run import ort
from onnxq.task.detections import detections
from onnxq.task.find import found_task
from onnxq.task.fits import fitted
from onnxq.task.known import KnownTask
from onnxq.task.layout import Boxes
from onnxq.task.stated import StatedTask

CORPUS = Path(os.environ.get("ONNXQ_CORPUS", "")) / "models"

ULTRAFACE = "detect:boxes=boxes,scores=scores,xyxy,background=0"
PRIORS = "detect:boxes=boxes,scores=scores,priors,background=0"
BY_MODEL = {
    "CONV_mobilenetv1_0.25_224_keras": "classify:scores=reshape_2",
    "CONV_squeezenet_winml_fp32": "classify:scores=softmaxout_1",
    "deeplabv3_mnv2_pascal": "segment:scores=ResizeBilinear_3,axis=3",
    "genai_tiny_gpt2_fp16": "tokens:scores=logits",
    "genai_tiny_lfm2": "tokens:scores=logits",
    "light_densenet121": "classify:scores=fc6_1",
    "light_inception_v1": "classify:scores=prob_1",
    "light_resnet50": "classify:scores=gpu_0/softmax_1",
    "light_squeezenet": "classify:scores=softmaxout_1",
    "light_vgg19": "classify:scores=prob_1",
    "magika_v3_3": "classify:scores=target_label",
    "mobilenetv2_0.35_128_flowers_st": "classify:scores=dense",
    "nanodet_m_416_mot": "detect:boxes=dis_pred_stride_8+dis_pred_stride_16+dis_pred_stride_32,"
    "scores=cls_pred_stride_8+cls_pred_stride_16+cls_pred_stride_32,ltrb,strides=8+16+32",
    "ortext_fastestdet": "detect:boxes=0:4,objectness=4,scores=5:,cxcywh",
    "ortext_superres": "image:map=output",
    "ppocr_cls_v2": "classify:scores=softmax_0.tmp_0",
    "tract_xgboost_classifier": "classify:scores=probabilities",
    "ultraface_masked_rfb640": ULTRAFACE,
    "ultraface_rfb320": ULTRAFACE,
    "ultraface_rfb320_nopost": PRIORS,  # which are in no file
    "ultraface_rfb320_simplified": PRIORS,
    "ultraface_rfb640": ULTRAFACE,
    "yunet_s_640": "detect:boxes=bbox_8+bbox_16+bbox_32,scores=cls_8+cls_16+cls_32,"
    "objectness=obj_8+obj_16+obj_32,offsets,power=0.5,strides=8+16+32",
}
"""The corpus's models that are understood; all others are said not to be."""

NOT_KNOWN = {
    "yunet_120x160": "nothing in the graph",  # distances from priors, beside points in one output
    "person_reid_0248": "a vector that stands for something",
    "cifar10_pytorch_winml": "a vector that stands for something",  # a Gemm is the last layer of both
    "ppocr_det_v2": "may be a picture, a map of heat, or of classes",
    "fns_candy_winml": "may be a picture, a map of heat, or of classes",
    "silero_vad": "nothing in the graph",
}
"""Some of those, and what is said of them."""


@pytest.mark.skipif(not os.environ.get("ONNXQ_CORPUS"), reason="ONNXQ_CORPUS names no folder of models")
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.onnx")), ids=lambda path: path.stem)
def test_which_models_of_the_corpus_are_understood(path: Path) -> None:
    model = Model.open(path)
    found = found_task(model, [tensor.name for tensor in model.outputs])
    assert found.text == BY_MODEL.get(path.stem, "")
    assert NOT_KNOWN.get(path.stem, "") in found.why
    assert found.why
    if found.text:
        fitted(StatedTask.of(found.text), model.outputs, model.inputs)


# -- made-up heads -----------------------------------------------------------------------------


def model_of(inputs: str, outputs: str, body: str, constants: str = "") -> Model:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({outputs}) <{constants}> {{ {body} }}'
    return Model.open(onnx.parser.parse_model(text.replace(" <>", "")))


def of(model: Model) -> str:
    return found_task(model, [tensor.name for tensor in model.outputs]).text


YOLOV8 = """
    lt, rb = Split <axis = 1> (x, two_two)
    low = Sub (anchors, lt)  high = Add (anchors, rb)
    sum = Add (low, high)  centre = Div (sum, half)  size = Sub (high, low)
    joined = Concat <axis = 1> (centre, size)  box = Mul (joined, stride)
    p = Sigmoid (c)  y = Concat <axis = 1> (box, p)"""
ANCHORS = (
    "int64[2] two_two = {2, 2}, float[1, 2, 2] anchors = {0.5, 1.5, 0.5, 0.5}, "
    "float half = {2}, float stride = {8}"
)
GRIDS = """
    p0 = Sigmoid (o0)  q0 = Sigmoid (c0)  j0 = Concat <axis = 1> (r0, p0, q0)  f0 = Reshape (j0, flat)
    p1 = Sigmoid (o1)  q1 = Sigmoid (c1)  j1 = Concat <axis = 1> (r1, p1, q1)  f1 = Reshape (j1, flat)
    whole = Concat <axis = 2> (f0, f1)  y = Transpose <perm = [0, 2, 1]> (whole)"""
OF_GRIDS = (
    "float[1, 8, 2, 2] x0, float[1, 8, 1, 1] x1, float[1, 1, 2, 2] o0, float[1, 3, 2, 2] c0, "
    "float[1, 1, 1, 1] o1, float[1, 3, 1, 1] c1"
)
HEADS = {
    "yolov8": (
        "float[1, 4, 2] x, float[1, 3, 2] c",
        "float[1, 7, 2] y",
        YOLOV8,
        ANCHORS,
        "detect:boxes=0:4,scores=4:,cxcywh,BCN",
    ),
    "yolov8-dynamic": (  # strides are made for as many candidates as there are
        "float[B, 4, K] x, float[B, 3, K] c, float[1, 2, K] anchors",
        "float[B, 7, K] y",
        "n = Shape <start = 2> (x)  strides = ConstantOfShape <value = float[1] {8}> (n)"
        + YOLOV8.replace("joined, stride", "joined, strides"),
        "int64[2] two_two = {2, 2}, float half = {2}",
        "detect:boxes=0:4,scores=4:,cxcywh,BCN",
    ),
    "yolov8-transposed": (
        "float[1, 4, 2] x, float[1, 3, 2] c",
        "float[1, 2, 7] t",
        YOLOV8 + " t = Transpose <perm = [0, 2, 1]> (y)",
        ANCHORS,
        "detect:boxes=0:4,scores=4:,cxcywh",
    ),
    "yolov8-seg": (
        "float[1, 4, 2] x, float[1, 3, 2] c, float[1, 5, 2] k, float[1, 5, 8, 8] m",
        "float[1, 12, 2] whole, float[1, 5, 8, 8] z",
        YOLOV8 + " whole = Concat <axis = 1> (y, k)  z = Relu (m)",
        ANCHORS,
        "detect:boxes=whole[0:4],scores=whole[4:7],cxcywh,BCN",
    ),
    "corners": (
        "float[1, 4, 2] x, float[1, 3, 2] c",
        "float[1, 7, 2] y",
        """lt, rb = Split <axis = 1> (x, two_two)
                low = Sub (anchors, lt)  high = Add (anchors, rb)  box = Concat <axis = 1> (low, high)
                p = Sigmoid (c)  y = Concat <axis = 1> (box, p)""",
        ANCHORS,
        "detect:boxes=0:4,scores=4:,xyxy,BCN",
    ),
    "yolov5": (
        "float[1, 9, 2, 2] x",
        "float[1, 4, 9] y",
        """t = Transpose <perm = [0, 2, 3, 1]> (x)  s = Sigmoid (t)
               a, b, c = Split <axis = 3> (s, parts)
               centre = Mul (a, stride)  size = Mul (b, stride)
               j = Concat <axis = 3> (centre, size, c)  y = Reshape (j, flat)""",
        "int64[3] parts = {2, 2, 5}, float stride = {8}, int64[3] flat = {1, 4, 9}",
        "detect:boxes=0:4,objectness=4,scores=5:,cxcywh",
    ),
    "end-to-end": (
        "float[1, 9, 4] b, float[1, 9] s",
        "float[1, 9, 6] y",
        """v, i = TopK (s, nine)  c = Cast <to = 1> (i)
                   v1 = Unsqueeze (v, last)  c1 = Unsqueeze (c, last)  y = Concat <axis = 2> (b, v1, c1)""",
        "int64[1] nine = {9}, int64[1] last = {2}",
        "detect:boxes=0:4,scores=4,label=5,xyxy,nms=off",
    ),
    "suppressed": (  # of one image, in a table of as many rows as there may be
        "float[1, 9, 4] b, float[1, 3, 9] s",
        "float[1, 5, 6] y",
        """n = NonMaxSuppression (b, s, five)  _, c, i = Split <axis = 1, num_outputs = 3> (n)
                   k = Squeeze (i, last)  b1 = Squeeze (b, first)  b2 = Gather (b1, k)
                   m = ReduceMax (s, last)  v = Squeeze (m, first)
                   v1 = Squeeze (v, first)  v2 = Gather (v1, i)
                   c1 = Cast <to = 1> (c)  none = Slice (b2, zero, zero, last)
                   j = Concat <axis = 1> (b2, v2, c1, none)  h = Shape <start = 0, end = 1> (j)
                   more = Sub (five, h)  e = Concat <axis = 0> (two, more, zero)
                   p = Pad (j, e)  r = Reshape (p, whole)  y = ScatterND (table, at, r)""",
        "int64[1] five = {5}, int64[1] last = {1}, int64[1] first = {0}, int64[1] zero = {0}, "
        "int64[2] two = {0, 0}, int64[3] whole = {1, 5, 6}, int64[1, 1] at = {0}, "
        f"float[1, 5, 6] table = {{{', '.join(['0'] * 30)}}}",
        "detect:boxes=0:4,scores=4,label=5,xyxy,nms=off",
    ),
    "four-outputs": (
        "float[1, 9, 4] b, float[1, 9] s",
        "float[1, 9, 4] boxes, float[1, 9] scores, int64[1, 9] labels",
        "scores, labels = TopK (s, nine)  boxes = Relu (b)",
        "int64[1] nine = {9}",
        "detect:boxes=boxes,scores=scores,label=labels,xyxy,nms=off",
    ),
    "suppressed-in-a-branch": (  # of a detector that skips the suppression where nothing is found
        "bool some, float[9, 4] b, float[9] s, int64[9] l",
        "float[k, 4] boxes, int64[m] labels, float[n] scores",
        """i = If (some) <then_branch = g1 () => (int64[k] i1)
             { e = Unsqueeze (s, zero)  f = Unsqueeze (e, zero)  c = Unsqueeze (b, zero)
               n = NonMaxSuppression (c, f, five)  p = Gather <axis = 1> (n, two)  i1 = Identity (p) },
             else_branch = g2 () => (int64[k] i2) { i2 = Identity (zero) }>
           boxes = Gather (b, i)  labels = Gather (l, i)  scores = Gather (s, i)""",
        "int64[1] five = {5}, int64[1] zero = {0}, int64 two = {2}",
        "detect:boxes=boxes,scores=scores,label=labels,xyxy,nms=off",
    ),
    "grids": (  # two, below each other
        OF_GRIDS,
        "float[1, 5, 8] y",
        "r0 = Slice (x0, zero, four, one)  r1 = Slice (x1, zero, four, one)" + GRIDS,
        "int64[1] zero = {0}, int64[1] four = {4}, int64[1] one = {1}, int64[3] flat = {1, 8, -1}",
        "detect:boxes=0:4,objectness=4,scores=5:,cxcywh",
    ),
    "not-decoded": (  # as YOLOX without its decoding
        OF_GRIDS + ", float[4, 8, 1, 1] w",
        "float[1, 5, 8] y",
        "r0 = Conv (x0, w)  r1 = Conv (x1, w)" + GRIDS,
        "int64[3] flat = {1, 8, -1}",
        "",
    ),
    "unknown-boxes": (
        "float[1, 9, 4] b, float[1, 9, 3] s",
        "float[1, 9, 4] boxes, float[1, 9, 3] scores",
        "scores = Sigmoid (s)  boxes = Sigmoid (b)",
        "",
        "",
    ),
    "tokens": (
        "int64[B, S] ids, float[S, 8] h",
        "float[B, S, 30] y",
        "e = Gather (table, ids)  y = MatMul (e, w)",
        "float[9, 8] table, float[8, 30] w",
        "tokens:scores=y",
    ),
    "hidden": (
        "int64[B, S] ids",
        "float[B, S, 8] y",
        "e = Gather (table, ids)  y = Relu (e)",
        "float[9, 8] table",
        "",
    ),
    "spans": (
        "int64[B, S] ids",
        "float[B, S] start_logits, float[B, S] end_logits",
        """e = Gather (table, ids)  m = MatMul (e, w)  a, b = Split <axis = 2> (m)
              start_logits = Squeeze (a, last)  end_logits = Squeeze (b, last)""",
        "float[9, 8] table, float[8, 2] w, int64[1] last = {2}",
        "spans:start=start_logits,end=end_logits",
    ),
    "line": (  # text that is read off a picture: the positions come first, as where they are steps in time
        "float[1, 4, 1, 6] x",
        "float[6, 1, 5] y",
        """c = Squeeze (x, high)  t = Transpose <perm = [2, 0, 1]> (c)
           m = MatMul (t, w)  a = Add (m, b)  y = Softmax <axis = 2> (a)""",
        "int64[1] high = {2}, float[4, 5] w, float[1, 5] b",
        "tokens:scores=y",
    ),
    "speech": (
        "float[1, 4, T] x, float[7, 4, 1] w",
        "float[1, T, 7] y",
        "c = Conv (x, w)  t = Transpose <perm = [0, 2, 1]> (c)  y = LogSoftmax (t)",
        "",
        "tokens:scores=y",
    ),
    "attention": (
        "float[1, 6, 4] x, float[1, 4, 5] k",
        "float[1, 6, 5] y",
        "m = MatMul (x, k)  y = Softmax (m)",
        "",
        "",
    ),
    "channels": (  # over the channels, which are no classes of a position
        "float[1, 6, 4] x",
        "float[1, 5, 6] y",
        "m = MatMul (x, w)  s = Softmax <axis = 1> (m)  y = Transpose <perm = [0, 2, 1]> (s)",
        "float[4, 5] w",
        "",
    ),
    "over-positions": (
        "float[1, 6, 4] x",
        "float[1, 6, 5] y",
        "m = MatMul (x, w)  y = Softmax <axis = 1> (m)",
        "float[4, 5] w",
        "",
    ),
    "faces": (
        "float[1, 6, 4] x",
        "float[1, 6, 2] y",
        "m = MatMul (x, w)  y = Softmax (m)",
        "float[4, 2] w",
        "",
    ),
    "softmax": ("float[1, 8] x", "float[1, 8] y", "y = Softmax (x)", "", "classify:scores=y"),
    "imagenet": (
        "float[N, 8] x",
        "float[N, 1000] y",
        "y = MatMul (x, w)",
        "float[8, 1000] w",
        "classify:scores=y",
    ),
    "logits": (
        "float[N, 8] x",
        "float[N, 9] logits",
        "logits = MatMul (x, w)",
        "float[8, 9] w",
        "classify:scores=logits",
    ),
    "vector": ("float[N, 8] x", "float[N, 128] y", "y = MatMul (x, w)", "float[8, 128] w", ""),
    "pixels": (
        "float[1, 5, 16, 16] x",
        "float[1, 5, 16, 16] y",
        "y = Softmax <axis = 1> (x)",
        "",
        "segment:scores=y,axis=1",
    ),
    "labels": (
        "float[1, 5, 16, 16] x",
        "int64[1, 16, 16] y",
        "y = ArgMax <axis = 1, keepdims = 0> (x)",
        "",
        "segment:scores=y",
    ),
    "labels of a stretch": (
        "float[1, 4, 9] x, float[3, 4, 1] w",
        "float[1, 3, 9] probs",
        "c = Conv (x, w)  probs = Sigmoid (c)",
        "",
        "classify:scores=probs,sigmoid",
    ),
    "speech or none": (  # beside the state after 8 steps
        "float[8, 1, 4] x, float[1, 12, 4] w, float[1, 12, 3] r, float[1, 1, 3] h",
        "float[8] probs, float[1, 1, 3] hn",
        """a, hn = GRU <hidden_size = 3> (x, w, r, , , h)  s = ReduceSum <keepdims = 0> (a, ends)
           probs = Sigmoid (s)""",
        "int64[3] ends = {1, 2, 3}",
        "classify:scores=probs,sigmoid",
    ),
    "a state of few steps": (
        "float[7, 1, 4] x, float[1, 12, 4] w, float[1, 12, 3] r, float[1, 1, 3] h",
        "float[7] probs, float[1, 1, 3] hn",
        """a, hn = GRU <hidden_size = 3> (x, w, r, , , h)  s = ReduceSum <keepdims = 0> (a, ends)
           probs = Sigmoid (s)""",
        "int64[3] ends = {1, 2, 3}",
        "",
    ),
    "picture": ("float[1, 3, 16, 16] x", "float[1, 3, 16, 16] y", "y = Sigmoid (x)", "", ""),
    "numbers": ("float[1, 3] x", "float[1, 3] y, float[1, 3] z", "y = Softmax (x)  z = Relu (x)", "", ""),
}


def filled(weight: re.Match[str]) -> str:
    """A weight without values, with some."""
    return f"{weight[1]} = {{{', '.join(['0.1'] * (int(weight[2]) * int(weight[3])))}}}"


@pytest.mark.parametrize("name", HEADS)
def test_heads_are_understood_by_what_makes_them(name: str) -> None:
    inputs, outputs, body, constants, text = HEADS[name]
    constants = re.sub(r"(float\[(\d+), (\d+)\] \w+)(?! =)\b", filled, constants)
    model = model_of(inputs, outputs, body, constants)
    assert of(model) == text
    if text:
        fitted(StatedTask.of(text), model.outputs, model.inputs)


def test_what_is_found_reads_what_the_graph_computes() -> None:
    inputs, outputs, body, constants, text = HEADS["yolov8"]
    model = model_of(inputs, outputs, body, constants)
    layout = fitted(StatedTask.of(text), model.outputs, model.inputs)
    assert isinstance(layout, Boxes)
    feeds = {
        "x": np.array([[[0.25, 1], [0.25, 1], [0.5, 1], [0.5, 1]]], np.float32),
        "c": np.array([[[-9, -9], [3, -9], [-9, 2]]], np.float32),
    }
    session = ort.load(model.to_proto())
    (found,) = detections(layout, dict(zip(session.outputs, session.run(feeds), strict=True)), feeds)
    assert np.allclose(found.boxes, [[2, 2, 8, 8], [4, -4, 20, 12]], atol=1e-5)
    assert found.classes.tolist() == [1, 2]
    assert np.allclose(found.scores, 1 / (1 + np.exp([-3, -2])), atol=1e-6)


def test_labels_are_asked_for_where_a_mark_of_quality_comes_of_a_sigmoid_too() -> None:
    model = model_of("float[1, 4] x", "float[1, 1] mark", "m = MatMul (x, w)  mark = Sigmoid (m)",
                     "float[4, 1] w = {0.1, 0.1, 0.1, 0.1}")  # fmt: skip
    told = found_task(model, ["mark"])
    assert (told.text, told.ask) == ("", "classify:scores=mark,sigmoid")


def test_states_after_many_steps_tell_in_the_answers_and_those_that_begin_may_be_zero() -> None:
    inputs, outputs, body, constants, _ = HEADS["speech or none"]
    model = model_of(inputs, outputs, body, constants)
    assert KnownTask.of(None, model, ["probs", "hn"]).states == ("hn",)
    assert begins(model) == {"h"}
    read = body.replace(
        "probs = Sigmoid (s)", "e = ReduceSum <keepdims = 0> (h)  t = Add (s, e)  probs = Sigmoid (t)"
    )
    assert begins(model_of(inputs, outputs, read, constants)) == set()


@pytest.mark.parametrize("chosen", [True, False])
def test_rows_that_values_choose_are_no_rows_of_classes(chosen: bool) -> None:
    """Of two models the rows are not of the same things; a mask of sizes alone chooses none."""
    mask = "high = Greater (s, limit)" if chosen else "high = ConstantOfShape (size)"
    body = f"""
        s = ReduceSum <keepdims = 0> (x, last)  size = Shape (s)  {mask}
        where = NonZero (high)  places = Reshape (where, flat)  rows = Gather (x, places)
        logits = Gemm (rows, w)"""
    constants = "int64[1] last = {1}, int64[1] flat = {-1}, float limit = {0}, float[4, 3] w = " + str(
        {1.0 * one for one in range(12)}
    )
    found = found_task(model_of("float[N, 4] x", "float[K, 3] logits", body, constants), ["logits"])
    assert ("NonZero" in found.why, found.text) == (chosen, "" if chosen else "classify:scores=logits")


def test_of_outputs_that_do_not_run_nothing_is_asked() -> None:
    """No output is left where a node runs nowhere here."""
    found = found_task(model_of("float[1, 3, 64, 64] x", "float[1, 3, 64, 64] y", "y = Relu (x)"), [])
    assert not found.text
