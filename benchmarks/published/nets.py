"""The networks of the published pairs: their shapes are right, their weights are random."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import ModelProto

from benchmarks.published import classifiers, detectors, segmenters, transformers
from onnxq.graph.layers import layer_of, other_macs
from onnxq.graph.model import Model
from onnxq.graph.view import Node

Sample = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Net:
    """A network.

    Attributes:
        make: makes the model; the first axis of its inputs is the batch.
        gmacs: what its publication says of multiply-accumulates for one sample, in 1e9; None where it
            says nothing.
        millions: the same of parameters, in 1e6.
        source: where it says so.
        size: height and width of its image, or how many tokens it reads.
        calibrated: the size of the samples, where that is a smaller one: then the net takes any.
    """

    make: Callable[[], ModelProto]
    gmacs: float | None
    millions: float | None
    source: str
    size: tuple[int, ...] = (224, 224)
    calibrated: tuple[int, ...] | None = None

    def samples(self, count: int) -> list[Sample]:
        """Normal deviates for an image, random words for a text."""
        return list(self._samples(count))

    def _samples(self, count: int) -> Iterator[Sample]:
        random = np.random.default_rng(0)
        for _ in range(count):
            if len(self.size) == 1:
                words = random.integers(0, 1000, (1, *self.size))
                yield {"input_ids": words, "attention_mask": np.ones_like(words)}
            else:
                size = self.calibrated or self.size
                yield {"x": random.standard_normal((1, 3, *size)).astype(np.float32)}


def counts(net: Net) -> tuple[float, float]:
    """Multiply-accumulates of a network for one sample, in 1e9, and its parameters, in 1e6."""
    proto = net.make()
    weights = [tensor for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT]
    parameters = sum(int(np.prod(tensor.dims)) for tensor in weights)
    model = Model.open(proto)
    (sample,) = replace(net, calibrated=None).samples(1)
    model.set_typical_input({name: array.shape for name, array in sample.items()})
    macs = 0
    for node in (Node(model, inner) for inner in model.graph.nodes):
        layer = layer_of(node)
        macs += (other_macs(node) if layer is None else layer.macs) or 0
    return macs / 1e9, parameters / 1e6


_TORCHVISION = "https://docs.pytorch.org/vision/stable/models.html"
_MMCLS = "https://github.com/open-mmlab/mmpretrain/tree/main/configs/seresnet"
_SWIN = "https://github.com/microsoft/Swin-Transformer/blob/main/MODELHUB.md"
_V5 = "https://github.com/ultralytics/yolov5"
_V6 = "https://arxiv.org/abs/2209.02976"
_V7 = "https://github.com/WongKinYiu/yolov7"
_V8 = "https://docs.ultralytics.com/models/yolov8/"
_V9 = "https://github.com/WongKinYiu/yolov9"
_BERT = "https://github.com/NVIDIA/TensorRT/blob/main/demo/BERT/README.md"
_UNET = "https://github.com/milesial/Pytorch-UNet"
_YOLO = (640, 640)
_STREET = (512, 1024), (128, 256)

NETS: dict[str, Net] = {
    "resnet18": Net(lambda: classifiers.resnet(18), 1.81, 11.7, _TORCHVISION),
    "resnet50": Net(lambda: classifiers.resnet(50), 4.09, 25.6, _TORCHVISION),
    "resnet18_256": Net(lambda: classifiers.resnet(18, 256), None, 11.7, _TORCHVISION, (256, 256)),
    "resnet34_256": Net(lambda: classifiers.resnet(34, 256), None, 21.8, _TORCHVISION, (256, 256)),
    "resnet50_256": Net(lambda: classifiers.resnet(50, 256), None, 25.6, _TORCHVISION, (256, 256)),
    "resnext50": Net(lambda: classifiers.resnet(50, group=32, width=128), 4.23, 25.0, _TORCHVISION),
    "se_resnet50": Net(lambda: classifiers.resnet(50, squeeze=True), 4.13, 28.09, _MMCLS),
    "shufflenet_v2": Net(classifiers.shufflenet_v2, 0.14, 2.3, _TORCHVISION),
    "mobilenet_v2": Net(classifiers.mobilenet_v2, 0.30, 3.5, _TORCHVISION),
    "mobilenet_v3_large": Net(classifiers.mobilenet_v3_large, 0.22, 5.5, _TORCHVISION),
    "efficientnet_b0": Net(classifiers.efficientnet_b0, 0.39, 5.3, _TORCHVISION),
    "vit_b16": Net(lambda: transformers.vit(768, 12), 17.56, 86.6, _TORCHVISION),
    "swin_t": Net(lambda: transformers.swin(96, 3, (2, 2, 6, 2)), 4.5, 28.3, _SWIN),
    "swin_b": Net(lambda: transformers.swin(128, 4, (2, 2, 18, 2)), 15.4, 87.8, _SWIN),
    "yolov5s": Net(detectors.yolov5s, 8.25, 7.2, _V5, _YOLO),
    "yolov6s": Net(detectors.yolov6s, 22.1, 17.2, _V6, _YOLO),
    "yolov7": Net(detectors.yolov7, 52.35, 36.9, _V7, _YOLO),
    "yolov7_tiny": Net(detectors.yolov7_tiny, 6.9, 6.2, _V7, _YOLO),
    "yolov8n": Net(lambda: detectors.yolov8("n"), 4.35, 3.2, _V8, _YOLO),
    "yolov8s": Net(lambda: detectors.yolov8("s"), 14.3, 11.2, _V8, _YOLO),
    "yolov8m": Net(lambda: detectors.yolov8("m"), 39.45, 25.9, _V8, _YOLO),
    # 12.6 GFLOP are published: a count that takes the transposed convolution four times
    "yolov8n_seg": Net(lambda: detectors.yolov8("n", task="segment"), None, 3.4, _V8, _YOLO),
    "yolov8n_pose": Net(lambda: detectors.yolov8("n", task="pose"), 4.6, 3.3, _V8, _YOLO),
    "yolov9c": Net(detectors.yolov9c, 51.05, 25.3, _V9, _YOLO),
    "bert_base_128": Net(lambda: transformers.bert(12, 768, 12, 128), None, 110, _BERT, (128,)),
    "bert_base_384": Net(lambda: transformers.bert(12, 768, 12, 384), None, 110, _BERT, (384,)),
    "bert_base_512": Net(lambda: transformers.bert(12, 768, 12, 512), None, 110, _BERT, (512,)),
    "bert_large_128": Net(lambda: transformers.bert(24, 1024, 16, 128), None, 330, _BERT, (128,)),
    "fcn_r50": Net(segmenters.fcn, None, None, "", *_STREET),
    "deeplabv3_r50": Net(segmenters.deeplab, None, None, "", *_STREET),
    "deeplabv3_plus_r50": Net(segmenters.deeplab_plus, None, None, "", *_STREET),
    "unet": Net(segmenters.unet, None, 31.0, _UNET, (512, 512), (128, 128)),
    "deeplabv3_r50_voc": Net(segmenters.deeplab_voc, None, None, "", (513, 513)),
    "dbnet_r18": Net(segmenters.dbnet, None, None, "", _YOLO),
    "srcnn": Net(segmenters.srcnn, None, None, "", (32, 32)),
}
"""By the name that the pairs have."""
