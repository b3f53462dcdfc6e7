"""What a model's first BatchNormalization knows of the pictures that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.graph.channels import by_channel
from onnxq.graph.cut import extract_between
from onnxq.graph.model import Model
from onnxq.graph.view import Node, Tensor

_NODES = 8  # between the input and the convolution, where the model prepares pictures itself
_TINY = 1e-12  # a variance


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

    def distances(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """How far values are from those of training, without each sample in turn.

        The Kullback-Leibler divergence of two normal distributions, `(r - 1 - ln r + d^2) / 2` of the ratio r
        of their variances and the distance d of their means in standard deviations, in nats: of the median
        channel, as one that is always zero has any.

        Args:
            values: of each sample, `[1, channels, height, width]`; two at least.

        Returns:
            float64 `[samples + 1]`, the last one that of all samples.
        """
        rows = [by_channel(one.astype(np.float64), 1) for one in values]
        count = np.array([row.shape[1] for row in rows], np.float64)[:, None]
        total, squares = (np.stack([(row**power).sum(1) for row in rows]) for power in (1, 2))
        left = [np.append(one.sum(0) - one, one.sum(0)[None], 0) for one in (count, total, squares)]
        mean = left[1] / left[0]
        variance = np.maximum(left[2] / left[0] - mean**2, 0)
        known = np.maximum(self.variance, _TINY)
        ratio = np.maximum(variance, _TINY) / known
        apart = (mean - self.mean) ** 2 / known
        each: np.ndarray = np.median((ratio - 1 - np.log(ratio) + apart) / 2, 1)
        return each


def first_norm(model: Model, name: str) -> FirstNorm | None:
    """That of an input of a model; None where none is right behind the first convolution.

    One without training, all of whose statistics are equal, knows nothing.
    """
    tensor = next((Tensor(model, one) for one in model.graph.inputs if one.name == name), None)
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
    part = extract_between(model, [name], [tensor.name]).model
    return FirstNorm(norm.name, part, mean, variance)


def _constant(node: Node, place: int) -> np.ndarray | None:
    tensor = node.operands(5)[place]
    values = None if tensor is None else tensor.constant
    return None if values is None or values.ndim != 1 else values.astype(np.float64)
