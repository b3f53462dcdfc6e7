"""Files of other frameworks, known by their first bytes and never loaded: how their models are exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnxq.base.catalogue import Fact

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
