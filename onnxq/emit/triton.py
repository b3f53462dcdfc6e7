"""A model configuration of NVIDIA Triton, `config.pbtxt`, for the TensorRT backend.

Source: Triton Inference Server, "Model Configuration", and `model_config.proto`, whose text form this is. A
dimension of varying size is -1; the batch is not among those of a model that has a greatest batch above 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx

from onnxq.emit.served import Binding, Served

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
