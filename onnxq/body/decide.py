"""What stays float32 in a half body, and how far the body is from float32: found on the float model."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from onnxq.base.reason import Reason, code_of
from onnxq.body.bounds import Ranges, is_float32
from onnxq.body.convert import HalfBody, to_half
from onnxq.body.emulate import losses, output_of, with_logits
from onnxq.body.formats import Kind, narrowed
from onnxq.body.islands import Islands, islands
from onnxq.body.measured_body import MeasuredBody, settle
from onnxq.graph.duplicate import duplicate
from onnxq.graph.model import Model
from onnxq.judge.policies import ABOVE_DB, AS_GOOD_DB, LEAST_ABOVE_DB, SCORES_DB
from onnxq.judge.sqnr import Energy


@dataclass(frozen=True, slots=True)
class Decision:
    """What a body is made by: the same with Q/DQ pairs and without.

    Attributes:
        kind: its type.
        io: whether float32 inputs and outputs of the model are of this type too.
        stays: the names of the nodes that stay float32, and why.
        masks: the names of what holds values of a mask, see `to_half`.
        float32_io: the names of inputs and outputs that stay float32 all the same.
        islands: what was known before anything ran; None where it was stated.
        settled: what running it showed; None where it did not run.
        refitted: the constants of the float model in whose place the quantized one has others, which the type
            holds exactly.
    """

    kind: Kind
    io: bool
    stays: Mapping[str, Reason]
    masks: tuple[str, ...]
    float32_io: tuple[str, ...] = ()
    islands: Islands | None = None
    settled: MeasuredBody | None = None
    refitted: frozenset[str] = frozenset()

    def reference(self, model: Model) -> Model:
        """What the body rounds: the float32 model, with refitted constants as the type holds them."""
        return _holding(model, self.refitted, self.kind) if self.refitted else model

    def convert(self, model: Model) -> HalfBody:
        """A model with this body.

        Raises:
            UserError: see `to_half`.
        """
        return to_half(model, self.kind, self.stays, io=self.io, float32_io=self.float32_io, masks=self.masks)

    def in_half(self, model: Model) -> Decision | None:
        """The same with nothing in float32 for the sake of an output that is near; None where nothing is.

        Args:
            model: the float32 model that was run to decide it.
        """
        stays = {name: why for name, why in self.stays.items() if code_of(why) != "accuracy"}
        if self.settled is None or len(stays) == len(self.stays):
            return None
        half = replace(self, stays=stays)
        settled = replace(self.settled, body=half.convert(self.reference(model)), stays=stays)
        return replace(half, settled=settled)


def decide(
    model: Model,
    quantized: onnx.ModelProto | None,
    kind: Kind,
    ranges: Ranges,
    samples: Sequence[Mapping[str, np.ndarray]],
    *,
    proto: onnx.ModelProto | None = None,
    io: bool = False,
    above: float = ABOVE_DB,
    refitted: Collection[str] = (),
    asked: Mapping[str, Reason] | None = None,
    left: Callable[[Decision], bool] = lambda decision: True,
) -> Decision:
    """As much float32 as it takes.

    Args:
        model: the float32 model; it is not modified.
        quantized: the same with Q/DQ pairs; None: outputs are to be as near as `settle` wants by default.
        kind: the type.
        ranges: what calibration measured of `onnxq.body.bounds.needed(model)`, by tensor.
        samples: feeds of the float32 model; a few. Without any, nothing runs.
        proto: the float32 model, written; None: it is written here.
        io: whether float32 inputs and outputs of the model are of this type too.
        above: by how much each output is to be nearer to float32 than int8 leaves it.
        refitted: constants in whose place the quantized model has others, which the type holds exactly: that
            they are rounded in the float32 model is nothing that the body loses.
        asked: nodes that the user has stay float32, by name.
        left: whether a body, decided before anything ran, has nodes for which running it may say something.

    Raises:
        RunError: a model does not run on the samples.
        UserError: see `to_half`.
    """
    kept = islands(model, kind, ranges)
    stays = {**kept.stays, **(asked or {})}
    masks, wide = tuple(sorted(kept.masks.sources)), tuple(sorted(kept.float32_io))
    known = Decision(kind, io, stays, masks, wide, kept)
    if not samples or not left(known):
        return known
    proto = model.to_proto() if proto is None else proto
    needed_db = _needed(model, proto, quantized, samples, above)
    refitted = frozenset(refitted)
    if refitted:
        model = _holding(model, refitted, kind)
        proto = model.to_proto()
    settled = settle(
        model,
        kind,
        stays,
        samples,
        proto=proto,
        needed_db=needed_db,
        io=io,
        float32_io=wide,
        masks=kept.masks.sources,
        masked=kept.masks.tensors,
    )
    return Decision(kind, io, settled.stays, masks, wide, kept, settled, refitted)


def _holding(model: Model, names: Collection[str], kind: Kind) -> Model:
    """A model whose constants of these names are as the type holds them, where it does."""
    result = duplicate(model)
    tensors = result.tensors()
    for name in names:
        values = tensors[name].constant if name in tensors else None
        if values is not None and np.isfinite(held := narrowed(values, kind)).all():
            tensors[name].tensor.values = held.astype(values.dtype)
    return result


def above_db(gained: float) -> float:
    """By how much the body alone is to be nearer to float32 than int8 alone.

    Args:
        gained: what repair brought int8, dB: the body is not asked for all of it as well.
    """
    return max(LEAST_ABOVE_DB, ABOVE_DB - max(0.0, gained))


def _needed(
    model: Model,
    proto: onnx.ModelProto,
    quantized: onnx.ModelProto | None,
    samples: Sequence[Mapping[str, np.ndarray]],
    above: float,
) -> dict[str, float]:
    """The SQNR that each float output needs, and its logits, dB."""
    outputs = (tensor.name for tensor in model.outputs if is_float32(tensor))
    ends = dict.fromkeys(with_logits(proto, outputs), 0)
    if quantized is None or not ends:
        return {}
    int8: Mapping[str, Energy] = losses(proto, quantized, ends, samples, data_dir=model.data_dir)
    scored = {output_of(name) for name in ends if output_of(name) != name}
    return {
        name: min(loss.sqnr_db + above, SCORES_DB if name in scored else AS_GOOD_DB)
        for name, loss in int8.items()
        if math.isfinite(loss.sqnr_db)
    }
