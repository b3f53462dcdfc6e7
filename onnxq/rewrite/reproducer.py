"""What the author of a wrong rule needs: both sides of a change, and an input that tells them apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from onnxq.graph.snippet import Snippet
from onnxq.rewrite.difference import Counterexample


def save_reproducer(snippet: Snippet, folder: Path, name: str, example: Counterexample | None = None) -> Path:
    """Saves both sides of a snippet as `before.onnx` and `after.onnx` in a new folder.

    With an example, also `counterexample.txt` for a reader and `counterexample.npz`: the inputs by name,
    and the output of both sides.
    """
    target = new_folder(folder, name)
    onnx.save(snippet.before, target / "before.onnx")
    onnx.save(snippet.after, target / "after.onnx")
    if example is not None:
        arrays = {"before": example.before, "after": example.after}
        found = {key: np.asarray(value) for key, value in (*example.inputs.items(), *arrays.items())}
        np.savez(target / "counterexample.npz", **found)  # type: ignore[arg-type]
        (target / "counterexample.txt").write_text(f"{example.text}\n", encoding="utf-8")
    return target


def new_folder(parent: Path, name: str) -> Path:
    """A new folder for what reproduces a fault, of this name as far as the file system takes it."""
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:100]
    target, count = parent / safe, 1
    while True:
        try:
            target.mkdir(parents=True)
        except FileExistsError:
            count += 1
            target = parent / f"{safe}-{count}"
        else:
            return target
