"""Files of other frameworks, known by their first bytes and never loaded: how their models are exported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OtherFormat:
    """A kind of file that is no ONNX model.

    Attributes:
        name: what it is, as in "it is ...".
        export: how an ONNX file is made of it, or what to give instead.
        fits: whether the first bytes of a file are of it; there are `HEAD` of them, or all.
    """

    name: str
    export: str
    fits: Callable[[bytes], bool]


HEAD = 4096

_PYTORCH = (
    "export the model with PyTorch, on inputs of the right shapes: torch.onnx.export(model.eval(), (x,), "
    "'model.onnx', dynamo=True); of Ultralytics: yolo export model=X.pt format=onnx"
)
_NUMPY = "it is data: give it behind --calib, and the model in front"

_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_IN_PYTORCH = (b"/data.pkl", b"/data/", b"/code/", b"/byteorder", b"/.format_version", b"/version")
_IN_GRAPHDEF = (b"Placeholder", b"\x12\x05Const", b"NoOp")

OTHER_FORMATS = (
    OtherFormat(
        "a TorchScript or PyTorch file", _PYTORCH,
        lambda head: head.startswith(b"PK\x03\x04") and any(part in head[:128] for part in _IN_PYTORCH),
    ),
    OtherFormat("a pickle, as PyTorch wrote it once", _PYTORCH, lambda head: head[:2] in _PICKLES),
    OtherFormat(
        "a TensorFlow Lite model", "convert it: tf2onnx --tflite X.tflite --output model.onnx",
        lambda head: head[4:8] == b"TFL3",
    ),
    OtherFormat(
        "weights without a graph (safetensors)",
        "export the model that they belong to; of Hugging Face: optimum-cli export onnx --model DIR OUT",
        lambda head: head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 32,
    ),
    OtherFormat(
        "a TensorRT engine", "give the ONNX model that it was built of: an engine cannot be turned back",
        lambda head: head[:4] in (b"ftrt", b"ptrt"),
    ),
    OtherFormat(
        "a Keras or HDF5 file", "convert it: tf2onnx --keras X.h5 --output model.onnx",
        lambda head: head.startswith(b"\x89HDF\r\n\x1a\n"),
    ),
    OtherFormat("samples of NumPy (.npy)", _NUMPY, lambda head: head.startswith(b"\x93NUMPY")),
    OtherFormat(
        "a zip archive", "unpack it, and give the .onnx file; a .npz is data, behind --calib",
        lambda head: head.startswith(b"PK\x03\x04"),
    ),
    OtherFormat(
        "a pointer of Git LFS, not the file itself", "fetch the file: git lfs pull",
        lambda head: head.startswith(b"version https://git-lfs.github.com/"),
    ),
    OtherFormat(
        "a page of a web server, not the file itself", "download it again, by the link of the raw file",
        lambda head: head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")),
    ),
    OtherFormat(
        "an OpenVINO model", "give the ONNX model that it was made of",
        lambda head: head.startswith((b"<?xml", b"<net ")) and b"<net " in head[:256],
    ),
    OtherFormat(
        "a frozen TensorFlow graph",
        "convert it: tf2onnx --graphdef X.pb --inputs IN:0 --outputs OUT:0 --output model.onnx",
        lambda head: head[:1] == b"\n" and any(op in head for op in _IN_GRAPHDEF),
    ),
)  # fmt: skip
"""The first that fits is meant. By: PyTorch's `torch.save`; TensorFlow Lite's schema (`file_identifier`);
safetensors' format; the plan files of TensorRT 8 to 10; HDF5's superblock; NumPy's NEP 1; Git LFS's
specification; TensorFlow's `GraphDef`, of which a node's name comes first and its operator behind it."""


def other_format(head: bytes) -> OtherFormat | None:
    """What a file is that is no ONNX model; None where that is not known.

    Args:
        head: its first bytes.
    """
    return next((one for one in OTHER_FORMATS if one.fits(head[:HEAD])), None)
