"""What a model's first BatchNormalization knows of the pictures that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.graph.channels import by_channel
from onnxq.graph.cut import extract_between
from onnxq.graph.model import Model
from onnxq.graph.view import Node

_NODES = 8  # between the input and the convolution, where the model prepares pictures itself
_TINY = 1e-12  # a variance
_ORDERS = 200  # of the channels, by chance
_BY_CHANCE = 0.01  # of them are as near, at most, where statistics are those of training


@dataclass(frozen=True, slots=True, eq=False)
class FirstNorm:
    """A BatchNormalization behind the first convolution, with the statistics of training.

    Attributes:
        node: its name.
        part: the model from the input to the values that it normalizes.
        mean: float64 `[channels]`, of these values in training.
        variance: likewise.
    """

    node: str
    part: onnx.ModelProto
    mean: np.ndarray
    variance: np.ndarray

    def compared(self, values: Sequence[np.ndarray]) -> NormCompared:
        """How far values are from those of training.

        Args:
            values: of each sample, `[1, channels, height, width]`; two at least.
        """
        rows = [by_channel(one, 1) for one in values]
        count = np.array([row.shape[1] for row in rows], np.float64)[:, None]
        total = np.stack([row.sum(1, dtype=np.float64) for row in rows])
        squares = np.stack([np.einsum("ij,ij->i", row, row, dtype=np.float64) for row in rows])
        left = [np.append(one.sum(0) - one, one.sum(0)[None], 0) for one in (count, total, squares)]
        mean = left[1] / left[0]
        variance = np.maximum(left[2] / left[0] - mean**2, 0)
        chance = np.random.default_rng(0)
        orders = np.stack([chance.permutation(len(self.mean)) for _ in range(_ORDERS)])
        distances = _distance(mean, variance, self.mean, self.variance)
        shuffled = _distance(mean[-1], variance[-1], self.mean[orders], self.variance[orders])
        return NormCompared(distances, float((shuffled <= distances[-1]).mean()))


@dataclass(frozen=True, slots=True, eq=False)
class NormCompared:
    """How far values are from those of training.

    Attributes:
        distances: without each sample in turn, and of all samples: float64 `[samples + 1]`, nats.
        by_chance: which part of the orders of the channels is as near as their own, 0 to 1.
    """

    distances: np.ndarray
    by_chance: float

    @property
    def is_trained(self) -> bool:
        """Whether each channel's statistics are its own: made-up ones would suit any other as well."""
        return self.by_chance <= _BY_CHANCE


def _distance(mean: np.ndarray, variance: np.ndarray, known: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The Kullback-Leibler divergence of normal distributions, `[..., channels]`, from known ones, nats.

    It is `(r - 1 - ln r + d^2) / 2` of the ratio r of their variances and the distance d of their means in
    standard deviations: of the median channel, as one that is always zero has any.
    """
    spread = np.maximum(spread, _TINY)
    ratio = np.maximum(variance, _TINY) / spread
    each: np.ndarray = np.median((ratio - 1 - np.log(ratio) + (mean - known) ** 2 / spread) / 2, -1)
    return each


def first_norm(model: Model, name: str) -> FirstNorm | None:
    """That of an input of a model; None where none is right behind the first convolution.

    One without training, all of whose statistics are equal, knows nothing.
    """
    tensor = next((one for one in model.inputs if one.name == name), None)
    for _ in range(_NODES):
        if tensor is None or len(tensor.users) != 1:
            return None
        (node,) = tensor.users
        if len(node.outputs) != 1:
            return None
        tensor = node.outputs[0]
        if node.op == "Conv":
            break
    else:
        return None
    norm = next((user for user in tensor.users if user.op == "BatchNormalization"), None)
    if norm is None or norm.inputs[0] != tensor:
        return None
    mean, variance = (_constant(norm, place) for place in (3, 4))
    if mean is None or variance is None or not np.ptp(mean) or not np.ptp(variance):
        return None
    if not np.isfinite([mean, variance]).all():
        return None
    return FirstNorm(norm.name, extract_between(model, [name], [tensor.name]).model, mean, variance)


def _constant(node: Node, place: int) -> np.ndarray | None:
    tensor = node.operands(5)[place]
    values = None if tensor is None else tensor.constant
    return None if values is None or values.ndim != 1 else values.astype(np.float64)
