"""What a candidate of a bundle computes inside, on one sample: it tells which layer an engine gets wrong."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np
import onnx

from onnxq.base.grouped import fitting
from onnxq.body.emulate import BUDGET, Tapped
from onnxq.emit import measure
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ
from onnxq.run.ort import Feeds

_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


def inner_tensors(model: Model, feeds: Feeds) -> bytes:
    """The file that `measure.Tensors` reads: some values of each float tensor that depends on an input.

    How near they are to those of a run with fused nodes tells what rounding alone changes. None of what pairs
    give: TensorRT fuses the pairs with what reads them.

    Args:
        model: a candidate.
        feeds: the sample.

    Raises:
        RunError: the model does not run.
    """
    model.set_typical_input({name: np.shape(values) for name, values in feeds.items()})
    about = _about(model)
    proto, values = model.to_proto(), dict[str, np.ndarray]()
    for group in fitting([(name, one.pop("bytes")) for name, one in about.items()], BUDGET):
        runs = [Tapped(proto, group, model.data_dir, optimize=fused).run(feeds) for fused in (False, True)]
        for name, one, other in zip(group, *runs, strict=True):
            values[name] = measure.sampled(one).astype(np.float32)
            level = measure.nearness(values[name], measure.sampled(other).astype(np.float32))
            about[name] |= {"size": one.size, "level": round(level, 1)}
    held = io.BytesIO()
    np.savez_compressed(
        held, about=json.dumps([*about.values()]), values=np.concatenate([np.zeros(0, "f"), *values.values()])
    )
    return held.getvalue()


def _about(model: Model) -> dict[str, dict[str, Any]]:
    """What is known of each of the tensors, by name, in the order in which they are computed."""
    found: dict[str, dict[str, Any]] = {}
    outputs = {tensor.name for tensor in model.outputs}
    above: dict[str, set[int]] = {tensor.name: set() for tensor in model.inputs}  # the nearest ones, by place
    for node in model.nodes:
        read = [above[tensor.name] for tensor in node.reads if tensor.name in above]
        if not read:  # a constant
            continue
        parents = set[int]().union(*read)
        for tensor in node.outputs:
            above[tensor.name] = parents
            if tensor.dtype in _FLOATS and node.op not in QDQ:
                above[tensor.name] = {len(found)}
                found[tensor.name] = {
                    "name": tensor.name, "type": int(onnx.helper.np_dtype_to_tensor_dtype(tensor.dtype)),
                    "node": node.name, "op": node.op, "output": tensor.name in outputs,
                    "parents": sorted(parents),
                    "bytes": 4 * math.prod(one for one in tensor.typical_shape or () if isinstance(one, int)),
                }  # fmt: skip
    return found
