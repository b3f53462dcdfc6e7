"""The nets that the benchmarks run: real layer sizes, seeded random weights."""

from collections.abc import Callable

import onnx

from benchmarks.nets.detector import yolov8n
from benchmarks.nets.graphs import long_graph
from benchmarks.nets.mobile import efficientnet_b0, mobilenet_v2, mobilenet_v3
from benchmarks.nets.residual import resnet18
from benchmarks.nets.transformer import bert, decoder, llama, vit_s16

__all__ = [
    "NETS", "bert", "decoder", "efficientnet_b0", "llama", "long_graph", "mobilenet_v2", "mobilenet_v3",
    "resnet18", "vit_s16", "yolov8n",
]  # fmt: skip

NETS: dict[str, Callable[..., onnx.ModelProto]] = {
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "efficientnet_b0": efficientnet_b0,
    "yolov8n": yolov8n,
    "vit_s16": vit_s16,
    "bert": bert,
}
"""What makes each net; `small=True` makes one of the same structure that runs in a millisecond or two."""
