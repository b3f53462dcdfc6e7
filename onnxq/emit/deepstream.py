"""A configuration of DeepStream's Gst-nvinfer for an engine.

Source: NVIDIA DeepStream, "Gst-nvinfer": `y = net-scale-factor * (x - offset)` of each pixel x from 0 to 255,
one factor for all channels and an offset for each. What a model was calibrated with and that formula cannot
say is a comment, never an approximation.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from onnxq.base.escapes import in_one_line
from onnxq.base.reason import noted
from onnxq.data.understood import ImagesRead
from onnxq.emit.served import Served

_COLORS = {"rgb": 0, "bgr": 1, "gray": 2}
_OTHER = 100
"""A network whose outputs the application reads itself."""


def deepstream(served: Served) -> tuple[str, tuple[str, ...]]:
    """The text of the configuration, and what it cannot say.

    The engine is built beforehand: Gst-nvinfer itself asks for a calibration cache where it builds int8.
    """
    open_: list[str] = []
    lines = [
        *served.head("#"),
        "[property]",
        "gpu-id=0",
        "gie-unique-id=1",
        f"model-engine-file={_value(served.engine, open_)}",
        f"batch-size={served.most_rows or _rows(served)}",
        f"network-type={_OTHER}",
        "output-tensor-meta=1",
        f"output-blob-names={';'.join(_value(one.name, open_) for one in served.outputs)}",
        *_image(served, open_),
    ]
    return "\n".join([*lines, *(f"# {in_one_line(one)}" for one in open_)]) + "\n", tuple(open_)


def _image(served: Served, open_: list[str]) -> Iterator[str]:
    """How frames become the input; `open_` is told what is not said."""
    if len(served.inputs) != 1:
        open_.append(noted("deepstream.inputs", inputs=len(served.inputs)))
        return
    (fed,) = served.inputs
    images = next((one for one in served.images if one.input == fed.name), None)
    if images is None:
        open_.append(noted("deepstream.no-images", input=fed.name))
        return
    if fed.elem_type != onnx.TensorProto.FLOAT:
        open_.append(noted("deepstream.type", input=fed.name))
    if images.layout not in ("NCHW", "NHWC"):
        open_.append(noted("deepstream.no-batch", input=fed.name))
        return
    planes = images.layout == "NCHW"
    largest = next((one[fed.name][2] for one in served.profiles if fed.name in one), fed.shape or ())
    sizes = [size for size in largest[1:] if isinstance(size, int)]
    if len(sizes) == 3:
        channels, height, width = sizes if planes else (sizes[2], *sizes[:2])
        yield f"infer-dims={channels};{height};{width}"
    else:
        open_.append(noted("deepstream.unknown-size"))
    yield f"network-input-order={0 if planes else 1}"
    yield f"model-color-format={_COLORS[images.color]}"
    yield from _pixels(images, open_)
    if "letterbox" in images.size:
        yield "maintain-aspect-ratio=1"
        yield "symmetric-padding=1"
        open_.append(noted("deepstream.padding"))
    elif not images.size.startswith("stretched") or "," in images.size:
        open_.append(noted("deepstream.stretches", size=images.size))


def _rows(served: Served) -> int:
    """The rows of a static input, 1 where that is not known."""
    first = next((one.shape[0] for one in served.inputs if one.shape), 1)
    return first if isinstance(first, int) else 1


def _pixels(images: ImagesRead, open_: list[str]) -> Iterator[str]:
    if len(set(images.std)) > 1:
        stds = ", ".join(f"{std:g}" for std in images.std)
        open_.append(noted("deepstream.divided", by=stds))
        return
    yield f"net-scale-factor={images.scale / images.std[0]!r}"
    if any(images.mean):
        channels = 1 if images.color == "gray" else 3
        means = images.mean * channels if len(images.mean) == 1 else images.mean
        yield f"offsets={';'.join(repr(mean / images.scale) for mean in means)}"


def _value(text: str, open_: list[str]) -> str:
    """A value of the file, in which ";" parts entries and a line ends one."""
    if ";" in text or not text.isprintable():
        open_.append(noted("deepstream.name", name=text))
    return in_one_line(text)
