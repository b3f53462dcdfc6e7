"""What is made of a draft: the float model with its edits, that with pairs, and that as it is written."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import UserError, fault_of
from onnxq.base.reason import Reason, noted
from onnxq.body.convert import HalfBody
from onnxq.calib.probes import makers
from onnxq.graph.duplicate import duplicate
from onnxq.graph.half import speaks_half
from onnxq.graph.model import Model
from onnxq.graph.pairs import QUANTIZE, Pair, PairIndex
from onnxq.graph.wiring import new_tensor, replace_input
from onnxq.pipeline.job import Job
from onnxq.quant.draft.body import BodyPlan
from onnxq.quant.draft.draft import Draft
from onnxq.quant.fits import fits_of
from onnxq.quant.insert import Inserted, insert, set_scales
from onnxq.quant.measuring import MeasuringCopy
from onnxq.quant.post_scale import post_scale
from onnxq.quant.scale_form import better_forms
from onnxq.quant.slices_apart import set_slices_apart

# What candidates have in common is not run again; in more pieces small models lose more than that saves.
_PIECES = 4


@dataclass(frozen=True, slots=True)
class FloatModel:
    """A model without pairs.

    Attributes:
        model: the model, open.
        proto: the same.
        reference: it, in the form that onnxruntime runs; without outputs if nothing runs.
        not_run: operators that onnxruntime does not know, by node that depends on one.
    """

    model: Model
    proto: onnx.ModelProto
    reference: onnx.ModelProto
    not_run: Mapping[str, str]

    @staticmethod
    def of(job: Job) -> FloatModel:
        """That of a job."""
        proto = job.model.to_proto(handover=True)
        reference, not_run = job.part(proto)
        return FloatModel(job.model, proto, job.runnable(reference), not_run)

    @property
    def whole(self) -> bool:
        """Whether all of it runs."""
        return not self.not_run

    @property
    def runs(self) -> bool:
        """Whether any of it does."""
        return bool(self.reference.graph.output)

    @property
    def computed(self) -> Set[str]:
        """The tensors of the main graph that onnxruntime gives, inputs and constants included."""
        return makers(self.reference.graph).keys()

    def edited(self, job: Job, model: Model) -> FloatModel:
        """The same with edits, by which `model` is another one."""
        proto = model.to_proto(handover=True)
        return replace(self, model=model, proto=proto, reference=job.runnable(job.part(proto)[0]))


@dataclass(frozen=True, slots=True)
class Finished:
    """A quantized model as it is written.

    Attributes:
        model: the model, open.
        proto: the same.
        body: how it was converted; None: it was not.
        post_scaled: names of the layers whose weights have one scale, and its ratios behind the product.
        left: int8 layers that keep a scale a channel although the other form was wanted, and why.
        apart: the slices whose pairs have the next scale, each with the Concat in which they meet.
    """

    model: Model
    proto: onnx.ModelProto
    body: HalfBody | None = None
    post_scaled: tuple[str, ...] = ()
    left: Mapping[str, Reason] = field(default_factory=dict)
    apart: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Built:
    """A draft, and what is made of it.

    Attributes:
        job: of the float model.
        draft: the draft.
        floats: the float model with its edits.
        inserted: that with pairs, its body float32.
        proto: the same, in the form that a file has.
        made: it, as it is written; None until it is asked for (`finished`).
    """

    job: Job
    draft: Draft
    floats: FloatModel
    inserted: Inserted
    proto: onnx.ModelProto
    made: Finished | None = None

    @staticmethod
    def of(job: Job, draft: Draft, floats: FloatModel) -> Built:
        """A draft with pairs.

        Raises:
            UserError: weights cannot be quantized, or a patch fits nothing of the model.
        """
        inserted = insert(floats.model, draft.plan, draft.scales, draft.patches)
        return Built(job, draft, floats, inserted, inserted.model.to_proto(handover=True))

    def rescaled(self, draft: Draft) -> Built:
        """The same pairs with the scales of a draft that differs in ranges alone; it is changed in place."""
        set_scales(self.proto, self.inserted.scales, draft.scales)
        return replace(self, draft=draft)

    def in_float(self, why: Mapping[str, str]) -> Built:
        """What is made of the draft with nodes in float, each with its reason.

        Raises:
            UserError: weights cannot be quantized.
        """
        if not why:
            return self
        with self.job.step("insert"):
            return Built.of(self.job, self.draft.in_float(why, self.floats.model), self.floats)

    def with_body(self, body: BodyPlan) -> Built:
        """The same with another body in its draft, which is made when it is asked for."""
        return replace(self, draft=replace(self.draft, body=body))

    def copy(self, *, by_layer: bool = False) -> MeasuringCopy:
        """The model with pairs, to be run with other scales and with pairs off.

        Args:
            by_layer: whether each layer is a piece, for many candidates with other pairs off.
        """
        part = self.job.runnable(self.job.part(self.proto)[0])
        return MeasuringCopy(
            self.inserted,
            self.draft.plan,
            part,
            self.floats.reference,
            data_dir=self.floats.model.data_dir,
            in_float32=self.job.in_float32,
            pieces=None if by_layer else 1 if speaks_half(part) else _PIECES,
            fits=fits_of(self.draft.patches, self.floats.model),
        )

    # -- as it is written ----------------------------------------------------------------------

    @property
    def written(self) -> Finished:
        """It, as it is written, its body float32 where nothing else was asked for."""
        return Finished(self.inserted.model, self.proto) if self.made is None else self.made

    @property
    def emulates(self) -> bool:
        """Whether it is judged with half precision rounded: of a part the ends are others in that."""
        return self.written.body is not None and self.floats.whole

    def finished(self) -> Built:
        """The same in its last form; where making that ends in a fault of ours its body is float32.

        Raises:
            UserError: it cannot have the body that was asked for.
        """
        try:
            return replace(self, made=self._written())
        except UserError:
            raise
        except Exception as error:  # the model is written as it was
            body = self.draft.body
            if body.plain:
                raise
            plain = replace(body.noting(body_fault(error)), decision=None, form="per-channel", plain=True)
            return self.with_body(plain).finished()

    def _written(self) -> Finished:
        body, model = self.draft.body, duplicate(self.inserted.model)
        apart = {} if body.plain else set_slices_apart(model, model.limits.get("slices-apart", 0))
        form = self._post_scaled(model)
        half = None
        if body.decision is not None:
            half = body.decision.convert(model)
            model = half.model
        if not model.limits.get("weight-codes", 1):
            set_float_weights(model)
        return Finished(model, model.to_proto(handover=True), half, *form, apart)

    def _post_scaled(self, model: Model) -> tuple[tuple[str, ...], Mapping[str, Reason]]:
        """Gives layers one weight scale, where that is wanted and better; which, and why others have not."""
        body = self.draft.body
        if body.plain or not (body.form == "post-scale" or body.layers):
            return (), {}
        half = body.decision is not None
        stays = body.decision.stays if body.decision is not None else {}
        better = better_forms(model, half=half, stays=stays)
        if body.layers is None:
            # without half precision it costs nothing
            asked = {n for n, form in better.items() if form.post_scaled or (body.forced and not half)}
        else:
            asked = {n for n in body.layers if n in better and (better[n].post_scaled or not half)}
        scaled = post_scale(model, asked)
        told = body.form == "post-scale"
        left = {name: form.why for name, form in better.items() if told and name not in asked}
        return scaled.layers, {**left, **scaled.left}


def body_fault(error: Exception) -> str:
    """What is said where making the body ends in a fault."""
    return noted("body-as-it-is.fault", fault=fault_of(error))


def set_float_weights(model: Model) -> int:
    """Puts float constants and a QuantizeLinear in the place of constants of codes, in place.

    Args:
        model: a quantized model.

    Returns:
        How many constants; one whose floats would not give the same codes again stays.
    """
    made: dict[tuple[str, ...], Any] = {}
    for pair in PairIndex.of(model, bodies=False).dequantizing:
        floats, codes, node = _floats(pair), pair.codes, pair.node.node
        if floats is None or codes is None or pair.scales is None:
            continue
        key = (*(tensor.name for tensor in node.inputs), str(pair.axis))
        if key not in made:
            source = model.new_constant(f"{codes.name.removesuffix('_int8')}_float", floats)
            made[key] = new_tensor(model.unique(f"{codes.name}_quantized"), codes.dtype, floats.shape)
            attrs = {"axis": pair.axis} if pair.is_per_channel else {}
            inputs, name = [source, *node.inputs[1:3]], f"{codes.name}_{QUANTIZE}"
            if pair.zero is None:  # which is 0 of the codes' type in what dequantizes, and of uint8 here
                zeros = np.zeros(pair.scales.shape, codes.dtype)
                inputs[2:] = [model.new_constant(f"{codes.name}_zero_point", zeros)]
            model.add_nodes([model.new_node(QUANTIZE, inputs, [made[key]], attrs, name=name)])
        replace_input(node, 0, made[key])
    model.sort()
    return len(made)


def _floats(pair: Pair) -> np.ndarray | None:
    """What constant codes are dequantized to; None where there are none, or others would come out again."""
    codes = None if pair.codes is None else pair.codes.constant
    if codes is None or pair.ends is None or pair.block:  # int32 is that of biases
        return None
    grid = pair.grid(codes.shape)
    if grid is None or pair.scale is None:
        return None
    scales, zeros = grid
    with np.errstate(all="ignore"):
        floats = ((codes.astype(np.float32) - zeros) * scales).astype(pair.scale.dtype)
        back = np.rint(floats.astype(np.float32) / scales) + zeros
    return floats if np.array_equal(back, codes) else None
