"""The files for who serves an engine: their names, and what is written into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from onnxq.base.errors import UserError
from onnxq.base.escapes import in_one_line
from onnxq.base.reason import noted
from onnxq.base.remarks import remark
from onnxq.data.understood import ImagesRead
from onnxq.graph.types import Shape, shape_of
from onnxq.options.settings import SERVERS
from onnxq.run.profiles import Profile
from onnxq.targets import Target


@dataclass(frozen=True, slots=True)
class Binding:
    """An input or output of an engine.

    Attributes:
        name: its name.
        elem_type: its type, an entry of ONNX's enumeration.
        shape: its shape; None of an unknown rank.
    """

    name: str
    elem_type: int
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class Served:
    """An engine that is to be served.

    Attributes:
        model: the file that it is built of.
        inputs: its inputs.
        outputs: its outputs.
        profiles: smallest, usual and largest shape of each dynamic input, of each optimization profile.
        batch: the symbols of the batch.
        images: how images became inputs where the model was calibrated; none where no images did.
        build: the command that builds the engine.
    """

    model: Path
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    profiles: tuple[Mapping[str, Profile], ...]
    batch: frozenset[str]
    images: tuple[ImagesRead, ...]
    build: str

    @property
    def engine(self) -> str:
        """The name of the engine's file, as the command that builds it writes it."""
        return self.model.with_suffix(".engine").name

    @property
    def most_rows(self) -> int:
        """The greatest batch; 0 where not all inputs and outputs begin with a dynamic batch.

        Without a statement of which dimension that is, it is the symbol with which all of them begin.
        """
        first = {one.shape[0] if one.shape else None for one in (*self.inputs, *self.outputs)}
        if len(first) != 1:
            return 0
        (symbol,) = first
        if not isinstance(symbol, str) or (self.batch and symbol not in self.batch):
            return 0
        sizes = [shapes[2][0] for profile in self.profiles for shapes in profile.values() if shapes[2]]
        return max(sizes, default=0)

    def head(self, comment: str) -> list[str]:
        """What a file of it begins with: what it is for, and how the engine is built.

        Args:
            comment: what begins a comment.
        """
        return [
            f"{comment} Written by onnxq for {in_one_line(self.engine)}, which this builds:",
            f"{comment} {in_one_line(self.build)}",
        ]


def bindings(values: Sequence[onnx.ValueInfoProto]) -> tuple[Binding, ...]:
    """Inputs or outputs of a model, of those that are tensors."""
    return tuple(
        Binding(
            one.name,
            one.type.tensor_type.elem_type,
            shape_of(one.type.tensor_type.shape) if one.type.tensor_type.HasField("shape") else None,
        )
        for one in values
        if one.type.HasField("tensor_type")
    )


_ENDINGS = dict(zip(SERVERS, (".config.pbtxt", ".deepstream.txt", ".build.sh"), strict=True))


def serving_path(output: Path, server: str) -> Path:
    """The file beside a model: `X.config.pbtxt`, `X.deepstream.txt` or `X.build.sh` for `X.onnx`.

    Args:
        output: the model's path.
        server: one of `SERVERS`.
    """
    return output.with_name(output.with_suffix("").name + _ENDINGS[server])


def check_servers(servers: Sequence[str], target: Target) -> None:
    """Refuses servers that do not run engines of a target.

    Raises:
        UserError: there is one.
    """
    for name in servers:
        if name != "trtexec" and target.tool != "trtexec":
            raise UserError(
                f"a file for {name} is asked for, which runs engines of TensorRT, and the target is "
                f"{target.title}",
                hint="give another --target, or leave it out of --deploy",
            )


def serving_text(server: str, served: Served) -> str:
    """What is written for a server; what it cannot say is remarked.

    Args:
        server: one of `SERVERS`.
        served: the engine.
    """
    if server == "trtexec":
        return f'#!/bin/sh\nset -e\ncd "$(dirname "$0")"\n{served.build}\n'
    if server == "triton":
        return triton(served)
    text, open_ = deepstream(served)
    for one in open_:
        remark(f"DeepStream: {one}")
    return text


# A model configuration of NVIDIA Triton, `config.pbtxt`, for the TensorRT backend.
#
# Source: Triton Inference Server, "Model Configuration", and `model_config.proto`, whose text form this is. A
# dimension of varying size is -1; the batch is not among those of a model that has a greatest batch above 0.

_OTHERWISE = {"FLOAT": "FP32", "FLOAT16": "FP16", "BFLOAT16": "BF16", "DOUBLE": "FP64"}
"""Types of ONNX that Triton calls otherwise."""


def triton(served: Served) -> str:
    """The text of `config.pbtxt`.

    The model's folder in the repository is named as the file without its ending, and the engine stands in
    its folder of a version: `X/config.pbtxt`, `X/1/X.engine`.
    """
    most = served.most_rows
    lines = [
        *served.head("#"),
        f"name: {_text(served.model.stem)}",
        'backend: "tensorrt"',
        f"default_model_filename: {_text(served.engine)}",
        f"max_batch_size: {most}",
        *_tensors("input", served.inputs, batched=most > 0),
        *_tensors("output", served.outputs, batched=most > 0),
    ]
    if len(served.profiles) > 1:
        numbers = ", ".join(f'"{number}"' for number in range(len(served.profiles)))
        lines += ["instance_group [", f"  {{ kind: KIND_GPU profile: [ {numbers} ] }}", "]"]
    return "\n".join(lines) + "\n"


def _tensors(kind: str, tensors: Sequence[Binding], *, batched: bool) -> Iterator[str]:
    yield f"{kind} ["
    for place, one in enumerate(tensors):
        dims = [dim if isinstance(dim, int) else -1 for dim in (one.shape or ())][batched:]
        # a row of no dimensions is stated as one of a single number; of a rank that is not known nothing is
        shape = (
            ""
            if one.shape is None
            else f"dims: [ {', '.join(map(str, dims))} ]"
            if dims
            else "dims: [ 1 ] reshape: { shape: [ ] }"
        )
        end = "," if place < len(tensors) - 1 else ""
        type_name = onnx.TensorProto.DataType.Name(one.elem_type)
        data_type = f"TYPE_{_OTHERWISE.get(type_name, type_name)}"
        yield f"  {{ name: {_text(one.name)} data_type: {data_type} {shape} }}{end}"
    yield "]"


def _text(text: str) -> str:
    """A string of protobuf's text form."""
    escapes = {'"': '\\"', "\\": "\\\\"}
    chars = (escapes.get(char) or (char if char.isprintable() else _bytes(char)) for char in text)
    return f'"{"".join(chars)}"'


def _bytes(char: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))


# A configuration of DeepStream's Gst-nvinfer for an engine.
#
# Source: NVIDIA DeepStream, "Gst-nvinfer": `y = net-scale-factor * (x - offset)` of each pixel x from 0 to
# 255, one factor for all channels and an offset for each. What a model was calibrated with and that formula
# cannot say is a comment, never an approximation.

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
