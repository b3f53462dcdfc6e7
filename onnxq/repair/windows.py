"""Windows of convolutions: what each sampled position of the output is computed from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.graph.view import Node


@dataclass(frozen=True, slots=True)
class Windows:
    """Which inputs a convolution of any rank multiplies, at each position of its output.

    Attributes:
        kernel: its size along each axis.
        strides: likewise.
        dilations: likewise.
        pads: before each axis, then behind each; None: by `auto_pad`.
        auto_pad: `NOTSET`, `VALID`, `SAME_UPPER` or `SAME_LOWER`.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str = "NOTSET"

    @staticmethod
    def of(node: Node, kernel: Sequence[int]) -> Windows:
        """Those of a Conv whose weights have a kernel of this size."""
        rank = len(kernel)
        ones = [1] * rank
        return Windows(
            tuple(kernel),
            tuple(node.attr("strides") or ones),
            tuple(node.attr("dilations") or ones),
            tuple(node.attr("pads") or [0] * (2 * rank)),
            node.attr("auto_pad") or "NOTSET",
        )

    def padding(self, sizes: Sequence[int]) -> list[tuple[int, int]]:
        """The zeros before and behind each axis of an input of these sizes."""
        rank = len(self.kernel)
        if self.auto_pad == "VALID":
            return [(0, 0)] * rank
        if self.auto_pad == "NOTSET":
            return [(self.pads[axis], self.pads[axis + rank]) for axis in range(rank)]
        pairs = []
        for size, kernel, stride, dilation in zip(
            sizes, self.kernel, self.strides, self.dilations, strict=True
        ):
            both = max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size)
            less = both // 2
            pairs.append((less, both - less) if self.auto_pad == "SAME_UPPER" else (both - less, less))
        return pairs

    def positions(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes of the output, of an input of these sizes."""
        return tuple(
            max(0, (size + before + behind - (kernel - 1) * dilation - 1) // stride + 1)
            for size, (before, behind), kernel, stride, dilation in zip(
                sizes, self.padding(sizes), self.kernel, self.strides, self.dilations, strict=True
            )
        )

    def taken(self, values: np.ndarray, at: np.ndarray) -> np.ndarray:
        """What some positions are computed from; where there is padding, zeros.

        Args:
            values: the input, [batch, channels, *sizes].
            at: flat indices of positions of the output, int64 [positions].

        Returns:
            [batch, positions, channels x kernel], of the input's type, in the order of the weights.
        """
        batch, channels, *sizes = values.shape
        indices = self._flat(sizes, at)
        flat = values.reshape(batch, channels, -1)
        inside = indices >= 0
        if inside.all():
            taken = flat.take(indices.ravel(), axis=2)
        else:
            taken = np.zeros((batch, channels, indices.size), values.dtype)
            taken[:, :, inside.ravel()] = flat[:, :, indices[inside]]
        taken = taken.reshape(batch, channels, len(at), math.prod(self.kernel))
        return np.ascontiguousarray(taken.transpose(0, 2, 1, 3)).reshape(
            batch, len(at), channels * taken.shape[3]
        )

    def _flat(self, sizes: Sequence[int], at: np.ndarray) -> np.ndarray:
        """The flat index of each input, -1 in the padding: int64 [positions, kernel]."""
        rank = len(sizes)
        places = np.unravel_index(at, self.positions(sizes)) if len(at) else (at,) * rank
        flat = np.zeros((len(at), *self.kernel), np.int64)
        inside = np.ones(flat.shape, bool)
        for axis, (place, (before, _)) in enumerate(zip(places, self.padding(sizes), strict=True)):
            offsets = np.arange(self.kernel[axis]) * self.dilations[axis] - before
            shape = [-1 if other == axis else 1 for other in range(rank)]
            index = (place * self.strides[axis]).reshape(-1, *[1] * rank) + offsets.reshape(1, *shape)
            inside &= (index >= 0) & (index < sizes[axis])
            flat = flat * sizes[axis] + index
        return np.where(inside, flat, -1).reshape(len(at), math.prod(self.kernel))
