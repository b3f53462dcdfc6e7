"""The body of a quantized model: what stays float32 is found on the float model, and figures are of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.body.bounds import Ranges, is_float32
from onnxq.body.convert import HalfBody, to_half
from onnxq.body.emulate import Loss, losses
from onnxq.body.formats import Kind
from onnxq.body.islands import MARGIN, Islands, islands
from onnxq.body.settle import Settled, settle
from onnxq.graph.model import Model

ABOVE_DB = 15.0
"""By how much the body alone is to be nearer to float32 than int8 alone."""

ENOUGH_DB = 100.0
"""What is always near enough: float32 has about 140 dB of its own."""


@dataclass(frozen=True, slots=True)
class BuiltBody:
    """The body of a quantized model, and its figures, by float output.

    Attributes:
        body: the quantized model in half precision.
        islands: what stayed float32 before anything ran.
        settled: the float model in half precision, and all that stays float32: its `outputs` are of the body
            alone, the pessimistic case.
        int8: of int8 alone, around it float32.
        together: of both, the pessimistic case.
    """

    body: HalfBody
    islands: Islands
    settled: Settled
    int8: Mapping[str, Loss]
    together: Mapping[str, Loss]


def build_body(
    model: Model,
    quantized: Model,
    kind: Kind,
    ranges: Ranges,
    samples: Sequence[Mapping[str, np.ndarray]],
    *,
    io: bool = False,
    above_db: float = ABOVE_DB,
    margin: float = MARGIN,
    threads: int = 0,
) -> BuiltBody:
    """The quantized model in half precision, with as much float32 as it takes.

    Args:
        model: the float32 model.
        quantized: the same with Q/DQ pairs, its layers in whatever form of scales; neither is modified.
        kind: the type.
        ranges: what calibration measured of `onnxq.body.bounds.needed(model)`, by tensor.
        samples: feeds of the float32 model; a few, which calibration did not see.
        io: whether float32 inputs and outputs of the model are of this type too.
        above_db: by how much each output is to be nearer to float32 than int8 leaves it.
        margin: how many times further than measured a tensor may go.
        threads: threads inside an operator, 0 for all cores.

    Raises:
        RunError: a model does not run on the samples.
        UserError: see `to_half`.
    """
    found = islands(model, kind, ranges, margin=margin)
    exact = model.to_proto()
    ends = {tensor.name: 0 for tensor in model.graph.outputs if is_float32(tensor)}

    def measured(proto: onnx.ModelProto) -> dict[str, Loss]:
        return losses(exact, proto, ends, samples, threads=threads, data_dir=model.data_dir)

    int8 = measured(quantized.to_proto())
    settled = settle(
        model,
        kind,
        found.stays,
        samples,
        needed_db={
            name: min(loss.sqnr_db + above_db, ENOUGH_DB)
            for name, loss in int8.items()
            if math.isfinite(loss.sqnr_db)
        },
        io=io,
        masks=found.masks.sources,
        masked=found.masks.tensors,
        threads=threads,
    )
    body = to_half(quantized, kind, settled.stays, io=io, masks=found.masks.sources)
    return BuiltBody(body, found, settled, int8, measured(body.model.to_proto()))
