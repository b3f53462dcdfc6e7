"""Layers that are left in float, as settings: `[[layer]]` entries that `--config` takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import tomli_w

from onnxq.base.escapes import escaped, in_one_line
from onnxq.base.shown import counted

_MARK = "# Written by onnxq; SHA-256 of what follows: "
_HEAD = """# {title}
# {count} left in float. Take them with: onnxq quantize MODEL --calib DATA --config {name}
# (a file that --config names stands in the place of ./onnxq.toml: add what that one says).
"""


def layer_settings(floats: Mapping[str, str], title: str, name: str) -> bytes:
    """The file.

    Args:
        floats: names of nodes, each with its reason.
        title: what they are, in a line.
        name: what the file is called.
    """
    count = counted(len(floats), "layer")
    parts = [_HEAD.format(title=in_one_line(title), count=count, name=in_one_line(name))]
    for node, why in floats.items():
        entry = {"match": _as_glob(node), "format": "float", "because": str(why)}
        parts.append(f"[[layer]]\n{tomli_w.dumps(entry)}")
    text = escaped("\n".join(parts), toml=True).encode("utf-8", "backslashreplace")
    return f"{_MARK}{hashlib.sha256(text).hexdigest()}\n".encode() + text


def is_as_written(path: Path) -> bool:
    """Whether a file is one of those, and nobody edited it."""
    first, _, rest = path.read_bytes().partition(b"\n")
    return first == f"{_MARK}{hashlib.sha256(rest).hexdigest()}".encode()


def _as_glob(name: str) -> str:
    """A glob that matches a name, and nothing else."""
    return re.sub(r"[*?[]", lambda wild: f"[{wild.group()}]", name)
