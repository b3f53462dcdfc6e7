"""Text that is read off positions: the greatest of each, repeats and blanks left out (greedy CTC)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.judge.comparable import as_tensor
from onnxq.task.layout import Lines


def greatest(layout: Lines, values: Mapping[str, Any]) -> np.ndarray:
    """The character of each position, `[batch, positions]`; that of no character is -1 where it is known.

    Raises:
        UserError: the output is none of positions.
    """
    value = as_tensor(values[layout.output])
    if value.ndim != 3:
        raise UserError(
            f"output {layout.output!r} has the shape {list(value.shape)}, and is to be "
            "[batch, positions, characters]",
            hint="state another layout with --task: onnxq help layout",
        )
    found = value.argmax(-1)
    found = np.where(found == value.shape[-1] - 1, -1, found)  # the last is -1
    return np.asarray(found.T if layout.positions_first else found)


def blank_of(layout: Lines, characters: np.ndarray, last: int) -> int:
    """The number of no character, as `greatest` counts.

    Args:
        layout: which may say it.
        characters: the float model's.
        last: the number of the last character.
    """
    if layout.blank is not None:
        return -1 if layout.blank in (-1, last) else layout.blank
    return -1 if np.count_nonzero(characters == -1) > np.count_nonzero(characters == 0) else 0


def texts(characters: np.ndarray, blank: int) -> list[tuple[int, ...]]:
    """The characters of each line."""
    return [tuple(one for one, _ in groupby(row) if one != blank) for row in characters.tolist()]


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """How many characters are put in, left out or changed between two texts (Levenshtein 1966)."""
    row = list(range(len(other) + 1))
    for place, wanted in enumerate(one):
        before, row[0] = row[0], place + 1
        for at, given in enumerate(other):
            before, row[at + 1] = row[at + 1], min(row[at + 1] + 1, row[at] + 1, before + (wanted != given))
    return row[-1]
