"""The type of what is not quantized: what stays float32 and why, the model as it is written, and figures.

The body comes last: rules are proved and scales chosen in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onnxq.base.errors import UserError
from onnxq.base.reason import Reason, code_of, reason
from onnxq.body.bounds import needed
from onnxq.body.formats import DTYPES, Kind
from onnxq.documents.body import BodyPart, CastMade, OutputOfBody, StaysFloat32
from onnxq.graph.half import speaks_half
from onnxq.graph.model import Model
from onnxq.graph.view import every_node
from onnxq.options.settings import NO_HALF, Format
from onnxq.pipeline.building import Finished
from onnxq.pipeline.calibration import Prepared
from onnxq.pipeline.job import Job
from onnxq.quant.draft.body import BodyPlan
from onnxq.quant.draft.from_file import body_as_stated
from onnxq.quant.placement import of_name, refuse_quantized
from onnxq.quant.plan_file import BodyType, PlanFile
from onnxq.run.compare import OutputAccuracy


def body_of(job: Job, format: Format, file: PlanFile | None) -> BodyPlan:
    """That of a run: by flag, by the plan, else by the target and the model; what it is made by is open.

    Raises:
        UserError: the plan has another body, or the target takes none.
    """
    if not job.target.explicit and (format.body or format.io or "fp32") != "fp32":
        raise UserError(
            f"{job.target.title} calibrates a float32 model by itself; a body was asked for",
            hint="leave body and io out: its builder has the flag --fp16",
        )
    own = speaks_half(job.model.to_proto(weights=False))
    kind, because = _kind(job, format, own)
    body = BodyPlan(
        kind, format.io == (kind or "fp32"), format.scale_form or job.target.scale_form,
        format.scale_form is not None, because, half=own, widens=own and format.body == "fp32",
        asked=_asked(job.model, format.keep_fp32),
    )  # fmt: skip
    if file is not None and file.body is not None:
        body = body_as_stated(body, file, file.body, format)
    if format.keep_fp32 and body.kind is None:
        raise UserError(f"{NO_HALF}: {because}", hint="leave keep_fp32 out, or give --body fp16")
    return body


def _asked(model: Model, globs: Sequence[str]) -> dict[str, Reason]:
    """The nodes of all graphs that globs name, with those of their bodies, and by which.

    Raises:
        UserError: a glob matches nothing, or a layer that the model itself quantizes.
    """
    nodes = [*every_node(model)] if globs else []
    asked: dict[str, Reason] = {}
    for glob in globs:
        flag = f"keep_fp32 {glob}"
        for node in of_name(nodes, glob):
            refuse_quantized(node, flag)
            asked |= {one.name: Reason("keep-fp32", flag, "user") for one in node.with_bodies}
    return asked


def _kind(job: Job, format: Format, half: bool) -> tuple[Kind | None, Reason]:
    title = job.target.title
    if format.body is not None or format.io not in (None, "fp32"):
        kind = format.body or format.io
        return (None if kind == "fp32" else kind), reason("asked", "user")  # type: ignore[return-value]
    if not job.target.strongly_typed:
        return None, reason("flags", "tensorrt", target=title)
    if half:
        return None, reason("own", "user")
    return "fp16", reason("typed", "tensorrt", target=title)


def bounded(prepared: Prepared) -> tuple[str, ...]:
    """The names of the tensors whose ranges the body asks for."""
    body = prepared.draft.body
    return needed(prepared.floats.model) if body.kind is not None and body.decision is None else ()


def _type(body: BodyPlan, made: Finished | None) -> BodyType:
    """The type that the body has; without data, that it is going to have."""
    if made is None:
        return body.kind or body.unchanged
    return made.body.kind if made.body is not None else body.unchanged


def body_part(
    wanted: BodyPlan,
    made: Finished | None,
    int8: Sequence[OutputAccuracy],
    alone: Sequence[OutputAccuracy],
    together: Sequence[OutputAccuracy],
) -> BodyPart:
    """What the report says of the body.

    Args:
        wanted: how it was decided.
        made: the model as it is written; None without data.
        int8: how near int8 is to float, around it float32; none where nothing is quantized.
        alone: how near the body without int8 is, emulated, to what it rounds (`Decision.reference`).
        together: likewise both, emulated.
    """
    part = BodyPart(
        type=_type(wanted, made),
        because=str(wanted.because),
        code=wanted.because.code,
        scale_form=wanted.form,
        io=DTYPES[wanted.kind].name if wanted.kind and wanted.io else "float32",
        post_scaled=() if made is None else tuple(made.post_scaled),
        per_channel={} if made is None else {name: str(why) for name, why in made.left.items()},
        slices_apart={} if made is None else dict(made.apart),
        notes=wanted.notes,
    )
    body = None if made is None else made.body
    if body is None:
        return part
    int8_db = {entry.output: entry.sqnr_db for entry in int8}
    alone_db = {entry.output: entry.sqnr_db for entry in alone}
    both_db = {entry.output: entry.sqnr_db for entry in together}
    ops = {node.name: node.op for node in every_node(body.model)}
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
