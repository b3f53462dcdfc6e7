"""What is found of a task: its text, or what is likely; and names and shapes as they are said in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.graph.types import Shape
from onnxq.graph.view import Tensor


@dataclass(frozen=True, slots=True)
class TaskFound:
    """What was found.

    Attributes:
        text: the layout, as `--task` takes it; "" where it is not known.
        why: by what it is known, or why it is not.
        ask: the layout that is likely where none is known; "" where none is.
    """

    text: str = ""
    why: str = ""
    ask: str = ""


def said(tensor: Tensor) -> str:
    """The name of an output as `--task` takes it: what means something there stands for itself by a "?"."""
    return re.sub(r"[,+=\[\]]", "?", tensor.name)


def joined(some: Sequence[tuple[int, str]]) -> str:
    """Outputs of strides below each other."""
    return "+".join(name for _, name in sorted(some))


def shown(shape: Shape | None) -> str:
    """A shape for people."""
    return (
        "of unknown shape"
        if shape is None
        else f"[{', '.join('?' if one is None else str(one) for one in shape)}]"
    )
