"""The type of what is not quantized: what stays float32 and why, the model as it is written, and figures.

The body comes last: rules are proved and scales chosen in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import UserError
from onnxq.base.heap import collected
from onnxq.base.reason import Reason, code_of
from onnxq.body.bounds import needed
from onnxq.body.convert import HalfBody
from onnxq.body.decide import Decision, above_db, decide
from onnxq.body.formats import DTYPES, Kind
from onnxq.calib.stats import Stats
from onnxq.documents.body import BodyPart, CastMade, OutputOfBody, StaysFloat32
from onnxq.graph.duplicate import duplicate
from onnxq.graph.half import speaks_half
from onnxq.graph.model import Model
from onnxq.options.settings import Format
from onnxq.pipeline.calibration import Prepared
from onnxq.pipeline.choosing import Quantized
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.plan_file import BodyEntry, BodyType, Float32Entry, PlanFile
from onnxq.quant.post_scale import post_scale
from onnxq.quant.scale_form import better_forms
from onnxq.quant.slices_apart import set_slices_apart
from onnxq.run import ort
from onnxq.run.compare import OutputAccuracy

SAMPLES = 2
"""How many samples say what has to stay float32: each trial runs them."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What body there is to be.

    Attributes:
        kind: its type; None: float types stay as they are.
        io: whether inputs and outputs are of this type too.
        form: the form of weight scales.
        forced: whether it was asked for.
        because: why it is that type.
        half: whether the model has half precision itself.
        widens: whether that becomes float32, and with `io` its inputs and outputs too.
        stated: the plan that says what stays float32, or None.
    """

    kind: Kind | None
    io: bool
    form: str
    forced: bool
    because: Reason
    half: bool = False
    widens: bool = False
    stated: PlanFile | None = None

    @staticmethod
    def of(job: Job, format: Format, file: PlanFile | None) -> Wish:
        """That of a run: by flag, by the plan, else by the target and the model.

        Raises:
            UserError: the plan has another body.
        """
        if not job.target.explicit and (format.body or format.io or "fp32") != "fp32":
            raise UserError(
                f"{job.target.title} calibrates a float32 model by itself; a body was asked for",
                hint="leave --body and --io out: its builder has the flag --fp16",
            )
        own = speaks_half(job.model.to_proto(weights=False))
        kind, because = _kind(job, format, own)
        form = format.scale_form or job.target.scale_form
        io = format.io == (kind or "fp32")
        forced = format.scale_form is not None
        wish = Wish(kind, io, form, forced, because, half=own, widens=own and format.body == "fp32")
        return wish if file is None or file.body is None else wish.obeying(file, format)

    def obeying(self, file: PlanFile, format: Format) -> Wish:
        """That of a plan.

        Raises:
            UserError: a flag says otherwise.
        """
        body = file.body
        assert body is not None
        for key, name, flag, said in (
            ("type", "body", format.body, body.type),
            ("io", "io", format.io, body.io),
            ("scales", "scale form", format.scale_form, body.scales),
        ):
            if flag is not None and flag != said:
                message = f"the plan's {name} is {said}, and this run's {flag}"
                raise file.error(("body", key), message, "leave the flag out, or edit the plan")
        kind: Kind | None = None if body.type in ("fp32", "own") else body.type  # type: ignore[assignment]
        because = Reason("plan", "the plan says so", "user")
        return replace(
            self, kind=kind, io=body.io == (kind or "fp32"), form=body.scales, because=because,
            widens=self.half and body.type == "fp32", stated=file,
        )  # fmt: skip

    @property
    def layers(self) -> set[str] | None:
        """The layers that a plan gives one weight scale; None where no plan says."""
        if self.stated is None or not self.settled:
            return None
        return {layer.node for layer in self.stated.layers if layer.scales == "post-scale"}

    @property
    def settled(self) -> bool:
        """Whether it is stated what stays float32."""
        return self.stated is not None and self.stated.body is not None and self.stated.body.settled


def _kind(job: Job, format: Format, half: bool) -> tuple[Kind | None, Reason]:
    title = job.target.title
    if format.body is not None or format.io not in (None, "fp32"):
        kind = format.body or format.io
        return (None if kind == "fp32" else kind), Reason("asked", "asked for", "user")  # type: ignore[return-value]
    if not job.target.strongly_typed:
        return None, Reason("flags", f"{title} chooses types by flags of its builder", "tensorrt")
    if half:
        return None, Reason("own", "the model has types of half precision itself", "user")
    return "fp16", Reason("typed", f"{title} runs the types that the file states", "tensorrt")


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
    body: HalfBody | None
    post_scaled: tuple[str, ...] = ()
    left: Mapping[str, Reason] = field(default_factory=dict)
    apart: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Finish:
    """What is done with a quantized model before it is written.

    Attributes:
        wish: what was wanted.
        decision: what the body is made by; None: float types stay as they are.
        notes: what the user may not expect.
        refused: the nodes that NVIDIA's compiler does not take in half precision.
        plain: whether nothing is done, as it ended in a fault.
    """

    wish: Wish
    decision: Decision | None
    notes: list[str] = field(default_factory=list)
    refused: dict[str, Reason] = field(default_factory=dict)
    plain: bool = False

    def __call__(self, model: Model) -> Finished:
        """A quantized model in its last form; it is not modified.

        Raises:
            UserError: it cannot have the body that was asked for.
        """
        try:
            return self._made(model)
        except UserError:
            raise
        except Exception as error:  # a fault of ours: the model is written as it was
            if self.plain:
                raise
            self.notes.append(_fault(error))
            self.decision, self.wish, self.plain = None, replace(self.wish, form="per-channel"), True
            return self._made(model)

    def _made(self, model: Model) -> Finished:
        model = duplicate(model)
        apart = {} if self.plain else set_slices_apart(model, model.limits.get("slices-apart", 0))
        form = self._post_scaled(model)
        body = None
        if self.decision is not None:
            body = self.decision.convert(model, self.refused)
            model = body.model
        return Finished(model, model.to_proto(handover=True), body, *form, apart)

    def _post_scaled(self, model: Model) -> tuple[tuple[str, ...], Mapping[str, Reason]]:
        """Gives layers one weight scale, where that is wanted and better; which, and why others have not."""
        if self.wish.form != "post-scale":
            return (), {}
        half = self.decision is not None
        stays = {**self.decision.stays, **self.refused} if self.decision is not None else {}
        better = better_forms(model, half=half, stays=stays)
        asked = self.wish.layers
        if asked is None:
            # without half precision it costs nothing
            asked = {n for n, form in better.items() if form.post_scaled or (self.wish.forced and not half)}
        else:
            asked = {n for n in asked if n in better and (better[n].post_scaled or not half)}
        found = post_scale(model, asked)
        left = {name: form.why for name, form in better.items() if name not in asked}
        return found.layers, {**left, **found.left}

    def in_float32(self) -> Finish:
        """The same with a float32 body."""
        return replace(self, decision=None, refused={})


def _fault(error: Exception) -> str:
    """What is said where making the body ends in a fault."""
    return f"the body stays as it is: making it ends in a fault of onnxq ({type(error).__name__}: {error})"


def bounded(job: Job, wish: Wish) -> tuple[str, ...]:
    """The names of the tensors whose ranges the body asks for."""
    return needed(job.model) if wish.kind is not None and not wish.settled else ()


def finish_of(
    job: Job, wish: Wish, prepared: Prepared, stats: Stats, done: Quantized, sampling: Sampling
) -> Finish:
    """Decides how a quantized model is written.

    Args:
        job: of the float model.
        wish: what is wanted.
        prepared: the plan, and what does not run.
        stats: the ranges of tensors.
        done: the quantized model.
        sampling: gives the samples that say what has to stay float32: those that chose scales.

    Raises:
        UserError: the model cannot have this body.
    """
    finish = Finish(wish, None)
    if wish.kind is None:
        return finish
    with job.step("body"):
        if wish.settled:
            assert wish.stated is not None
            body = wish.stated.body
            assert body is not None
            names = {node.name for graph in job.model.graphs() for node in graph.nodes}
            ends = {tensor.name for tensor in (*job.model.graph.inputs, *job.model.graph.outputs)}
            wish.stated.check_float32(names, ends)
            stays = {entry.node: Reason("plan", entry.because, "user") for entry in body.float32}
            finish.decision = Decision(wish.kind, wish.io, stays, body.masks, body.float32_io)
            return finish
        ranges = {name: (entry.min, entry.max) for name, entry in stats.tensors.items() if entry.size}
        runs = not prepared.not_run and bool(prepared.reference.graph.output) and not job.in_float32
        samples: list[Mapping[str, np.ndarray]] = []
        if runs and sampling.parts is not None:
            samples = list(islice(sampling.feeds(sampling.choosing()), SAMPLES))
        try:
            above = above_db(done.gained_db)
            finish.decision = decide(
                job.model,
                done.proto,
                wish.kind,
                ranges,
                samples,
                proto=prepared.sanitized,
                io=wish.io,
                above=above,
            )
        except ort.RunError as error:
            finish.notes.append(f"the body did not run: {error}; what stays float32 is by ranges alone")
            finish.decision = decide(job.model, None, wish.kind, ranges, (), io=wish.io)
        except UserError:
            raise
        except Exception as error:  # a fault of ours
            finish.notes.append(_fault(error))
            return finish
        finish.notes += _notes(finish.decision, samples, job.model, measured=sampling.parts is not None)
        collected()
    return finish


def entry_of(finish: Finish | None, wish: Wish) -> BodyEntry:
    """What a plan file says; `finish`: None without data."""
    kind: BodyType = wish.kind or _unchanged(wish)
    io: BodyType = kind if wish.io else "own" if wish.half else "fp32"
    if finish is None:
        return BodyEntry(kind, io, wish.form)
    decision = finish.decision
    if decision is None:
        return BodyEntry(kind, io, wish.form, True)
    stays = [Float32Entry(name, str(why)) for name, why in decision.stays.items()]
    wide = decision.float32_io if wish.io else ()
    return BodyEntry(kind, io, wish.form, True, decision.masks, wide, tuple(stays))


def _type(wish: Wish, made: Finished | None) -> BodyType:
    """The type that the body has; without data, that it is going to have."""
    if made is None:
        return wish.kind or _unchanged(wish)
    return made.body.kind if made.body is not None else _unchanged(wish)


def _unchanged(wish: Wish) -> BodyType:
    """What a body is whose type is not changed: that of the model, where it has half precision itself."""
    return "own" if wish.half and not wish.widens else "fp32"


def _notes(decision: Decision, samples: Sequence[Any], model: Model, *, measured: bool) -> list[str]:
    """What the user may not expect of a body; `measured`: whether this run took the ranges itself."""
    notes = []
    dtype = DTYPES[decision.kind]
    unknown = decision.islands.without_range if decision.islands is not None else ()
    reached = {tensor.name for node in model.graph.nodes for tensor in node.outputs}
    reached |= {tensor.name for tensor in model.graph.inputs}
    for names, why in (
        (
            [name for name in unknown if name in reached],
            "" if measured else " (give --calib, or take the statistics again)",
        ),
        (
            [name for name in unknown if name not in reached],
            " (nothing is measured inside bodies of If, Loop and Scan)",
        ),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            notes.append(
                f"the range of {names[0]!r}{more} was not measured: what makes and reads it stays "
                f"float32{why}"
            )
    if decision.io and decision.islands is not None:
        for name, why in decision.islands.float32_io.items():
            notes.append(f"in spite of --io, {name!r} stays float32: {why}")
    if not samples:
        notes.append(f"the {dtype} body was not run: what stays float32 is by ranges and operators alone")
    elif decision.settled is not None and not decision.settled.reached:
        notes.append(f"in {dtype} some output stays further from float32 than it is to be: see body.outputs")
    return notes


def body_part(
    finish: Finish,
    made: Finished | None,
    int8: Sequence[OutputAccuracy],
    alone: Sequence[OutputAccuracy],
    together: Sequence[OutputAccuracy],
) -> BodyPart:
    """What the report says of the body.

    Args:
        finish: how it was decided.
        made: the model as it is written; None without data.
        int8: how near int8 is to float, around it float32; none where nothing is quantized.
        alone: likewise the body without int8, emulated.
        together: likewise both, emulated.
    """
    part = BodyPart(
        type=_type(finish.wish, made),
        because=str(finish.wish.because),
        code=finish.wish.because.code,
        scale_form=finish.wish.form,
        io=DTYPES[finish.wish.kind].name if finish.wish.kind and finish.wish.io else "float32",
        post_scaled=() if made is None else tuple(made.post_scaled),
        per_channel={} if made is None else {name: str(why) for name, why in made.left.items()},
        slices_apart={} if made is None else dict(made.apart),
        notes=tuple(finish.notes),
    )
    body = None if made is None else made.body
    if body is None:
        return part
    int8_db = {entry.output: entry.sqnr_db for entry in int8}
    alone_db = {entry.output: entry.sqnr_db for entry in alone}
    both_db = {entry.output: entry.sqnr_db for entry in together}
    ops = {node.name: node.op for graph in body.model.graphs() for node in graph.nodes}
    return replace(
        part,
        half=len(body.halved),
        float32=tuple(
            StaysFloat32(name, ops.get(name, ""), str(why), code_of(why))
            for name, why in body.stays.items()
            if code_of(why) != "pairs"
        ),
        casts=tuple(CastMade(cast.tensor, cast.to) for cast in body.casts),
        constants=len(body.constants),
        masks=tuple(body.masks),
        interface=tuple(body.interface),
        outputs=tuple(
            OutputOfBody(
                entry.output,
                int8_db.get(entry.output),
                alone_db.get(entry.output),
                both_db.get(entry.output),
            )
            for entry in int8 or alone
        ),
    )
