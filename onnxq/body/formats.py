"""The types of half precision that a body can have, and what they lose of constants."""

from __future__ import annotations

from typing import Literal

import ml_dtypes
import numpy as np

from onnxq.base.reason import Reason, reason
from onnxq.graph.types import float_info

Kind = Literal["fp16", "bf16"]
"""float16 or bfloat16; never both in a model."""

DTYPES: dict[Kind, np.dtype] = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}

KINDS: tuple[Kind, ...] = ("fp16", "bf16")

LOSS = 2.0**-8
"""Root mean square error, relative to that of the values, from which a constant counts as lost: what bfloat16
keeps of ordinary values, and float16 of those above about 1e-5."""

MASKED = 2.0**14
"""What stands for a greater one in a mask: far from any score, and finite in float16 where three add up."""


_AT_ONCE = 1 << 20  # values of a constant, so that a large one is not there in double precision


def highest(kind: Kind) -> float:
    """The greatest finite value."""
    return float(float_info(DTYPES[kind]).max)


def narrowed(values: np.ndarray, kind: Kind) -> np.ndarray:
    """Values rounded to the type; infinite where it does not reach."""
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(DTYPES[kind])


def loss(values: np.ndarray, kind: Kind, *, divides: bool = False, bounds: bool = False) -> Reason | None:
    """Why the type cannot hold a constant, None where it can.

    Args:
        values: float32 values of any shape.
        kind: the type.
        divides: whether something is divided by them, so that none but a zero may become one.
        bounds: whether values beyond the type may be any of its greatest.
    """
    dtype, amax, power, error, lost = DTYPES[kind], 0.0, 0.0, 0.0, False
    flat = values.reshape(-1)
    if not divides and _holds(flat, kind):
        return None
    for start in range(0, flat.size, _AT_ONCE):
        part = flat[start : start + _AT_ONCE]
        part = part[np.isfinite(part)]
        amax = max(amax, float(np.abs(part).max(initial=0.0)))
        if bounds:
            part = np.clip(part, -highest(kind), highest(kind))
        narrow = narrowed(part, kind).astype(np.float64)
        if not np.isfinite(narrow).all():
            return reason("constant.beyond", amax=amax, dtype=dtype, end=highest(kind))
        lost = lost or bool(((narrow == 0) & (part != 0)).any())
        wide = part.astype(np.float64)
        power += float(wide @ wide)
        error += float((narrow - wide) @ (narrow - wide))
    if divides and lost:
        return reason("constant.zero", dtype=dtype)
    if error > LOSS**2 * power:
        percent = 100 * (error / power) ** 0.5
        return reason("constant", amax=amax, percent=percent, dtype=dtype)
    return None


def _holds(flat: np.ndarray, kind: Kind) -> bool:
    """Whether a type surely holds float32 values, by their greatest magnitude and their root mean square.

    Of what it rounds normal numbers are off by half a step of their own at most, and the others by half its
    least number: together that has to be less than `LOSS`. In a sixth of the time of rounding them.
    """
    info, power = float_info(DTYPES[kind]), 0.0
    for start in range(0, flat.size, _AT_ONCE):
        part = flat[start : start + _AT_ONCE]
        if not max(float(part.max()), -float(part.min())) <= highest(kind):
            return False
        power += float(np.dot(part, part))
    rounded = 2.0 ** -(info.nmant + 1)
    mean: float = (power / max(1, flat.size)) ** 0.5
    return bool(float(info.smallest_subnormal) / 2 <= 0.99 * (LOSS - rounded) * mean)


def stored(values: np.ndarray, kind: Kind, limit: float | None = None) -> np.ndarray:
    """A constant in the type; `limit`: what stands for greater finite values."""
    if limit is not None:
        values = np.where(np.isfinite(values), np.clip(values, -limit, limit), values)
    return narrowed(values, kind)
