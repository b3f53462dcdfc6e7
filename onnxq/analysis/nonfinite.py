"""Which operator makes NaN or infinities first: the values of nodes in front of a tensor, on one sample."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from onnxq.analysis.parts import PartRunner, parts_of
from onnxq.analysis.stages import Stage
from onnxq.graph.order import reads
from onnxq.judge.comparable import as_tensor, is_real
from onnxq.run.ort import RunError


def first_maker(
    stage: Stage, tensor: str, near: list[onnx.NodeProto], feeds: Mapping[str, np.ndarray]
) -> tuple[onnx.NodeProto, str] | None:
    """The first of some nodes that gives a value that is not finite though what it reads is.

    Args:
        stage: the stage.
        tensor: what is not finite.
        near: the nodes that are asked.
        feeds: the sample.

    Returns:
        The node and its tensor; None where none is found, or it does not run.
    """
    names = dict.fromkeys(
        name
        for node in near
        for name in (*reads(node), *node.output)
        if name in stage.maker and name not in stage.fixed and stage.is_float(name)
    )
    (part,) = parts_of(stage, [[*names, tensor]], None)
    try:
        values, _ = PartRunner(stage, part).run(feeds, {})
    except RunError:
        return None
    for node in near:
        for name in node.output:
            sound = all(_finite(values[read]) for read in reads(node) if read in values)
            if sound and name in values and not _finite(values[name]):
                return node, name
    return None


def _finite(value: np.ndarray) -> bool:
    array = as_tensor(value)
    return not is_real(array.dtype) or bool(np.isfinite(array).all())
