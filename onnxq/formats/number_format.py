"""What a number format is: which numbers its codes are for, and the way from values to codes and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import ml_dtypes
import numpy as np

_FLOAT = np.dtype(np.float32)

# A smaller scale is not a normal float32; TensorRT asks for positive scales.
_MIN_SCALE = 1e-37


@dataclass(frozen=True)
class NumberFormat:
    """A type of codes: a value is the number of its code times a scale, of a tensor, a channel or a block.

    Numbers are symmetric around 0, as TensorRT's are (NVIDIA, "Working with quantized types"): int8's least
    code, which files may hold, stands for no number here.

    Attributes:
        name: what people, plan files and the compiler's layers call it.
        dtype: of the codes: numpy's, or that of ml_dtypes.
        opset: the first whose Q/DQ pairs have this type, and a channel axis.
        reads: the names of other types of codes that products in this format read.
        blocks: whether they read codes with a scale for each block.
        scale_dtype: of the scales.
    """

    name: str
    dtype: np.dtype
    opset: int = 13
    reads: Sequence[str] = ()
    blocks: bool = False
    scale_dtype: np.dtype = _FLOAT

    @cached_property
    def even(self) -> bool:
        """Whether its numbers are evenly spaced: all codes are whole numbers."""
        return not np.array(0.5).astype(self.dtype).astype(np.float32)

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest code."""
        limits = (ml_dtypes.iinfo if self.even else ml_dtypes.finfo)(self.dtype)
        return int(limits.min), int(limits.max)

    @property
    def greatest(self) -> int:
        """The greatest number."""
        return self.ends[1]

    @cached_property
    def magnitudes(self) -> np.ndarray:
        """Its numbers above 0, float64, ascending; of a type of a byte."""
        every = np.arange(256, dtype=np.uint8).view(self.dtype).astype(np.float64)
        return np.unique(every[(every > 0) & (every <= self.greatest)])

    def gaps(self, numbers: np.ndarray) -> np.ndarray:
        """The distance of each of its numbers from the one before, nearer to 0; of 0 that from the next."""
        steps: np.ndarray = np.diff(self.magnitudes, prepend=0.0)
        found: np.ndarray = steps[np.searchsorted(self.magnitudes, np.abs(numbers))]
        return found

    def takes(self, other: NumberFormat) -> bool:
        """Whether products in this format read codes of another one."""
        return other.name in (self.name, *self.reads)

    def nearest(self, numbers: np.ndarray) -> np.ndarray:
        """The nearest numbers that it has, in the type of these; ties to even (ONNX, QuantizeLinear)."""
        whole = np.rint(numbers) if self.even else numbers
        held: np.ndarray = np.clip(whole, -self.greatest, self.greatest)
        return held if self.even else held.astype(self.dtype).astype(held.dtype)

    def scale(self, amax: np.ndarray | float) -> np.ndarray:
        """The scales of ranges -amax..amax, of their shape; 1 for what is always zero.

        Args:
            amax: the magnitudes that its greatest number is for.
        """
        top = np.asarray(amax)
        steps = top / top.dtype.type(self.greatest)
        return np.where(steps > _MIN_SCALE, steps, 1).astype(self.scale_dtype)

    def codes(self, values: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """The nearest codes of values; values and scales have one shape, or spread to one."""
        return self.nearest(values / scale).astype(self.dtype)

    def values(self, codes: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """What codes stand for, float32; shapes as in `codes`."""
        found: np.ndarray = codes.astype(np.float32) * scale
        return found
