"""Which outputs can be compared; those that are left out, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.base.grouped import grouped
from onnxq.base.plain import DocumentPart

NOT_COMPARED = "its values are not all finite floats, or its shape differs between the models"
UNCHANGED = "quantization does not change it"
CONSTANT = "it does not vary"
STILL = "it does not vary from sample to sample"
UNWEIGHED = "its weight is 0"

_NAMED = 3


@dataclass(frozen=True, slots=True)
class OutputLeftOut(DocumentPart):
    """An output that does not count.

    Attributes:
        output: its name.
        why: why it does not.
    """

    output: str
    why: str


def not_compared(left_out: Sequence[OutputLeftOut] = ()) -> str:
    """That no output could be compared, which ones there are, and why not, those of one reason together.

    Args:
        left_out: the outputs that do not count.
    """
    told = []
    for why, names in grouped((one.why, repr(one.output)) for one in left_out).items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        told.append(f"{', '.join(names[:_NAMED])}{more}: {why}")
    return "no output could be compared" + (f" ({'; '.join(told)})" if told else "")


def is_comparable(reference: np.ndarray, candidates: Iterable[np.ndarray] = ()) -> bool:
    """Whether a tensor holds finite floats, and candidates have its shape."""
    finite = is_real(reference.dtype) and bool(np.isfinite(reference).all())
    return finite and all(candidate.shape == reference.shape for candidate in candidates)


def without_masks(
    reference: np.ndarray, candidates: Sequence[np.ndarray]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Infinities as zeros, as of classes that are masked: what is behind them is to be judged.

    A candidate's is infinite where it has another one, or none, so that it does not agree.
    """
    masked = np.isinf(reference) if is_real(reference.dtype) else np.zeros(0, bool)
    if not masked.any():
        return reference, list(candidates)

    def open_(values: np.ndarray) -> np.ndarray:
        if values.shape != reference.shape:
            return values
        return np.where(masked, np.where(values == reference, 0, np.inf), values)

    return np.where(masked, 0, reference), list(map(open_, candidates))


def as_tensor(value: Any) -> np.ndarray:
    """An output as one tensor: a sequence or a map is all of its values, one after another."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return np.concatenate([np.ravel(as_tensor(item)) for item in value]) if value else np.empty(0)
    return np.asarray(value)


def is_real(dtype: np.dtype) -> bool:
    """Whether a dtype is a float, one of ml_dtypes included."""
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))
