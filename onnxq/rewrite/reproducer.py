"""What the author of a wrong rule needs: both sides of a change, and an input that tells them apart."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import tempfile
from pathlib import Path

import numpy as np
import onnx

from onnxq.base.reason import noted
from onnxq.base.remarks import remark
from onnxq.graph.rooted import inlined
from onnxq.graph.snippet import Snippet
from onnxq.rewrite.difference import Counterexample

MOST = 50
"""So many folders are kept in one place, of all runs."""

MOST_BYTES = 1 << 30
"""So large they are together before there is another one."""


def place() -> Path:
    """Where reproducers go: a folder of the user's among the temporary ones, made with the first."""
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""  # on Windows temporary files are the user's
    return Path(tempfile.gettempdir()) / f"onnxq-reproducers{user}"


def save_reproducer(snippet: Snippet, folder: Path, name: str, example: Counterexample | None = None) -> Path:
    """Saves both sides of a snippet as `before.onnx` and `after.onnx` in a new folder.

    With an example, also `counterexample.txt` for a reader and `counterexample.npz`: the inputs by name,
    and the output of both sides.
    """
    target = new_folder(folder, name)
    onnx.save(inlined(snippet.before), target / "before.onnx")
    onnx.save(snippet.after, target / "after.onnx")
    if example is not None:
        arrays = {"before": example.before, "after": example.after}
        arrays_now = {key: np.asarray(value) for key, value in (*example.inputs.items(), *arrays.items())}
        np.savez(target / "counterexample.npz", **arrays_now)  # type: ignore[arg-type]
        (target / "counterexample.txt").write_text(f"{example.text}\n", encoding="utf-8")
    return target


def new_folder(parent: Path, name: str) -> Path:
    """A new folder for what reproduces a fault, of this name as far as the file system takes it.

    Nobody else may look into it: it holds parts of the user's model. Of too many the oldest are removed.

    Args:
        parent: where; made where there is none. What is not the user's alone (a link, or somebody else's of
            that name) is not written to: a new folder takes its place.
        name: its name.
    """
    with contextlib.suppress(FileExistsError):
        parent.mkdir(mode=0o700, parents=True)
    if not _is_own(parent):
        parent = _another(parent)
    _make_room(parent)
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:100]
    target, count = parent / safe, 1
    while True:
        try:
            target.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            count += 1
            target = parent / f"{safe}-{count}"
        else:
            return target


def _is_own(folder: Path) -> bool:
    state = folder.lstat()
    return not hasattr(os, "getuid") or (
        stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o077
    )


@functools.cache
def _another(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))


def _make_room(parent: Path) -> None:
    """Removes the oldest folders, so that with another one there are not too many."""
    sizes = {folder: _bytes(folder) for folder in parent.iterdir()}
    while sizes and (len(sizes) >= MOST or sum(sizes.values()) > MOST_BYTES):
        oldest = min(sizes, key=lambda folder: folder.lstat().st_mtime)
        del sizes[oldest]
        shutil.rmtree(oldest, ignore_errors=True)
        remark(noted("old-reproducers", folder=str(parent), most=MOST))


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
