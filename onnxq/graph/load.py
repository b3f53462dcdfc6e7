"""Reading a model file: its bytes, its external data, its faults."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from onnxq.base.catalogue import Fact
from onnxq.base.errors import UserError
from onnxq.graph.constants import external_range
from onnxq.graph.stored import check_sparse, check_values, invalid
from onnxq.graph.validity import check_functions, check_names, check_opsets, check_text, check_types

ModelSource = str | os.PathLike[str] | onnx.ModelProto
"""A path, or the model itself."""


def read(path: str | os.PathLike[str], *, stripped: bool = False) -> onnx.ModelProto:
    """Reads a model without its external data; `stripped`: weights may have no data at all.

    Raises:
        UserError: the file is missing, empty, truncated or not an ONNX model.
    """
    file = Path(path)
    if not os.path.exists(file):  # unlike Path.exists, False for a name that is too long
        near = sorted(p.name for p in file.parent.glob("*.onnx")) if os.path.isdir(file.parent) else []
        raise UserError(
            f"there is no model file {str(file)!r}",
            hint=f"in that folder: {', '.join(near[:5])}" if near else "check the path",
        )
    if not os.path.isfile(file):
        raise UserError(f"{str(file)!r} is not a file", hint="give the path of the .onnx file")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {str(file)!r}: {error.strerror}") from error
    if not data:
        raise UserError(f"{str(file)!r} is empty", hint="export or copy the model again")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
        whole = model.HasField("graph")
    except DecodeError as error:
        _refuse_other(data, file)
        raise UserError(
            f"{str(file)!r} is not an ONNX model, or it is truncated ({len(data):,} bytes)",
            hint="compare the file's size with its source; copy or export the model again",
        ) from error
    if not whole:
        _refuse_other(data, file)
    check(model, str(file), stripped=stripped)
    return model


def _refuse_other(data: bytes, file: Path) -> None:
    """Says what a file is that is no ONNX model, where its bytes tell."""
    if (other := other_format(data)) is not None:
        raise UserError(
            f"{str(file)!r} is {other.text('files')}, not an ONNX model", hint=other.text("files", "do")
        )


def check(model: onnx.ModelProto, where: str, *, stripped: bool = False) -> None:
    """Refuses what parses as a message but is no model.

    Raises:
        UserError: there is no graph, no opset, or no output, an output that nothing makes, a tensor
            that is defined twice, a weight whose sizes do not fit its data, or anything else that
            `onnxq.graph.validity` and `onnxq.graph.stored` refuse.
    """
    if not model.HasField("graph") or not model.opset_import:
        raise UserError(
            f"{where!r} is not an ONNX model: it has no {'opset' if model.HasField('graph') else 'graph'}",
            hint="give the .onnx file that the framework's exporter wrote",
        )
    if not model.graph.output:
        raise UserError(f"{where!r} has no outputs", hint="export the model again; the file may be truncated")
    check_text(model, where)
    check_opsets(model, where)
    check_names(model.graph, where)
    for graph in graphs(model.graph):
        check_types((*graph.input, *graph.output, *graph.value_info), where)
        for sparse in graph.sparse_initializer:
            check_sparse(sparse, where)
    check_functions(model, where)
    for tensor in tensors(model.graph):
        check_values(tensor, where, stripped=stripped)
    for attribute in attributes(model):
        if attribute.HasField("sparse_tensor"):
            check_sparse(attribute.sparse_tensor, where)
    for tensor in (t for function in model.functions for t in tensors(function)):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise invalid(
                where, "a function of it has external data, which nobody reads", "store them in the model"
            )
        check_values(tensor, where, stripped=stripped)


def check_external_data(model: onnx.ModelProto, data_dir: Path | None) -> bool:
    """Checks that each external tensor's bytes are there.

    Returns:
        Whether the model has external data at all.

    Raises:
        UserError: a data file is missing, too short, or outside the model's folder.
    """
    external = False
    for tensor in tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            external = True
            if data_dir is None:
                raise UserError(
                    f"tensor {tensor.name!r} is external data, and the model has no folder",
                    hint="give the model as a path, or load its external data first",
                )
            external_range(tensor, data_dir)
    return external


def opset_of(model: onnx.ModelProto, otherwise: int = 1) -> int:
    """The version of the default operator set; `otherwise` of a model that imports none."""
    return next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), otherwise)


def graphs(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.GraphProto]:
    """A graph, or a function, and its subgraph bodies, outer before inner."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def attributes(model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    """Every attribute of a model's nodes, those in bodies and functions included."""
    for part in (model.graph, *model.functions):
        for graph in graphs(part):
            for node in graph.node:
                yield from node.attribute


def tensors(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.TensorProto]:
    """Every dense tensor of a graph, or of a function: initializers and attributes, bodies included."""
    if isinstance(graph, onnx.GraphProto):
        yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from tensors(attribute.g)
            for body in attribute.graphs:
                yield from tensors(body)


HEAD = 4096

_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_IN_PYTORCH = (b"/data.pkl", b"/data/", b"/code/", b"/byteorder", b"/.format_version", b"/version")
_IN_GRAPHDEF = (b"Placeholder", b"\x12\x05Const", b"NoOp")

OTHER_FORMATS: Mapping[str, Callable[[bytes], bool]] = {
    "torchscript": lambda head: (
        head.startswith(b"PK\x03\x04") and any(part in head[:128] for part in _IN_PYTORCH)
    ),
    "pickle": lambda head: head[:2] in _PICKLES,
    "tflite": lambda head: head[4:8] == b"TFL3",
    "safetensors": lambda head: head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 32,
    "engine": lambda head: head[:4] in (b"ftrt", b"ptrt"),
    "keras": lambda head: head.startswith(b"\x89HDF\r\n\x1a\n"),
    "numpy": lambda head: head.startswith(b"\x93NUMPY"),
    "zip": lambda head: head.startswith(b"PK\x03\x04"),
    "lfs": lambda head: head.startswith(b"version https://git-lfs.github.com/"),
    "html": lambda head: head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")),
    "openvino": lambda head: head.startswith((b"<?xml", b"<net ")) and b"<net " in head[:256],
    "graphdef": lambda head: head[:1] == b"\n" and any(op in head for op in _IN_GRAPHDEF),
}
"""Whether the first `HEAD` bytes of a file are of it, by the row of `base/catalogue/files.toml`.

The first that fits is meant. By: PyTorch's `torch.save`; TensorFlow Lite's schema (`file_identifier`);
safetensors' format; the plan files of TensorRT 8 to 10; HDF5's superblock; NumPy's NEP 1; Git LFS's
specification; TensorFlow's `GraphDef`, of which a node's name comes first and its operator behind it.
"""


def other_format(head: bytes) -> Fact | None:
    """What a file is that is no ONNX model; None where that is not known.

    Args:
        head: its first bytes.
    """
    return next((Fact(code) for code, fits in OTHER_FORMATS.items() if fits(head[:HEAD])), None)
