"""Writing a plan for the user to edit, and taking one."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.reason import noted, say
from onnxq.base.shown import Shown, Words
from onnxq.documents.measurements import RESULTS, read_measurements
from onnxq.documents.report import PlanReport
from onnxq.emit import files
from onnxq.formats import FORMATS
from onnxq.graph.model import Model
from onnxq.pipeline.job import Job
from onnxq.pipeline.words import planned_words
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.from_file import check_shapes
from onnxq.quant.draft.to_file import file_of
from onnxq.quant.plan_file import PlanFile, encodable
from onnxq.quant.plan_reading import read_plan
from onnxq.run.deployment import Deployment


@dataclass(slots=True, repr=False)
class Planned(Shown):
    """A plan that can be edited.

    Attributes:
        file: what its file says.
        report: what was done and found on the way, as in `Result`.
        source: the path of the model, or None.
    """

    file: PlanFile
    report: PlanReport
    source: Path | None = None

    def words(self) -> Words:
        """How many layers are in int8, and what stays in float."""
        return planned_words(self.report)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Writes `X.toml`, and what is too long for it beside it, `X.<hash>.npz`.

        Args:
            path: the file.
            force: replace a file that is there.

        Returns:
            The files written, that plan last.

        Raises:
            UserError: the path is taken, or cannot be written.
        """
        written = save_plan(self.file, Path(path), self.source, force=force)
        self.report = replace(self.report, output=str(path), files=tuple(map(str, written)))
        return written


def save_plan(file: PlanFile, output: Path, source: Path | None = None, *, force: bool = False) -> list[Path]:
    """Writes a plan; see `Planned.save`."""
    check_plan_output(output, source, force=force)
    contents = file.files(output.name)
    for name, content in contents.items():
        files.save_file(output.parent / name, content)
    return [output.parent / name for name in contents]


def check_plan_output(output: Path, source: Path | None, *, force: bool) -> None:
    """Refuses the path of a plan before any work is done: the one that is there may have been edited.

    Raises:
        UserError: it is taken, or cannot be written.
    """
    if os.path.isfile(output) and output.stat().st_size and not force and output != source:
        raise UserError(
            f"{str(output)!r} exists, and may have been edited",
            hint="give another path with -o, or --force to replace it",
        )
    files.check_output(output, source, force=True, record=output)


def planned(
    job: Job,
    draft: Draft,
    model: Model,
    deployments: Sequence[Deployment],
    origin: str,
    report: PlanReport,
    post_scaled: Collection[str] = (),
    *,
    settled: bool = True,
) -> Planned:
    """The plan of a run.

    Args:
        job: of the model.
        draft: what the file says; it has no ranges without data.
        model: the model without pairs.
        deployments: what it is for; none where no sizes are known.
        origin: where the ranges are from, for the reader of the file.
        report: what was done and found on the way.
        post_scaled: names of the layers with one weight scale, and its ratios behind the product.
        settled: whether it is decided what stays float32.
    """
    source = None if isinstance(job.source, onnx.ModelProto) else Path(job.source)
    sizes = {
        f"{one.name}/{name}" if one.name else name: one.profiles.get(name, (shape,) * 3)
        for one in deployments
        for name, shape in one.usual.items()
    }
    head = PlanFile(
        "" if source is None else encodable(source.name), job.fingerprint(), job.target.name, sizes,
        origin=origin, shares={one.name: one.weight for one in deployments if one.name},
    )  # fmt: skip
    return Planned(file_of(draft, model, head, post_scaled, settled=settled), report, source)


def plan_at(path: Path) -> PlanFile:
    """The plan in a file, or of the file to use of a bundle, by its `results.json`.

    Raises:
        UserError: it is not there, is none, or says something that makes no sense of any model; or the file
            to use has no plan.
    """
    if path.name != RESULTS:
        return read_plan(path)
    found = read_measurements(path)
    plan = path.with_name(f"{found.chosen}.plan.toml")
    if not plan.is_file():
        said = f"no plan makes the file to use, measured on {found.device}, {found.date}"
        raise UserError(": ".join((said, *found.answer[:1])), hint=say("decision.none"))
    return replace(read_plan(plan), measured=found.measured)


def take_plan(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> PlanFile:
    """Reads a plan for a target.

    Raises:
        UserError: it is none, or of another target.
    """
    file = plan_at(Path(path))
    target = os.fspath(target)
    if file.target != target:
        message = f"the plan is for {file.target}, and this run is for {target}"
        raise file.error(("target",), message, f"give --target {file.target}, or write a plan anew")
    return file


def formats_of_plan(file: PlanFile, asked: Sequence[str]) -> tuple[str, ...]:
    """The number formats of a plan's layers; of none where it quantizes none.

    `asked`: those that the user asks for.

    Raises:
        UserError: the plan has another one, or one that is not known.
    """
    for index, entry in enumerate(file.layers):
        where = "layer", index, "format"
        if entry.format not in (*FORMATS, "float"):
            error = unknown_name("number format", entry.format, (*FORMATS, "float"))
            raise file.error(where, str(error), error.hint)
        if asked and entry.format not in (*asked, "float"):
            message = f"{entry.node!r} is to be in {entry.format}, and --format is {','.join(asked)}"
            raise file.error(where, message, "leave --format out: the plan says it layer by layer")
    held = {entry.format for entry in file.layers}
    return tuple(name for name in FORMATS if name in held) or tuple(asked)


def obeying(job: Job, file: PlanFile, *, sizes: bool) -> Job:
    """The job that obeys a plan, before all long work.

    Args:
        job: of a model that is not sanitized yet.
        file: the plan.
        sizes: whether the sizes of the plan count; the shares of several deployments always do.

    Raises:
        UserError: the plan is of another model.
    """
    now = job.fingerprint()
    if file.hash != now:
        raise file.error(
            ("model", "hash"),
            "the plan is of another model: its hash has changed, or what --shape, --assume and --freeze "
            "state of its inputs, or --pairs of its pairs",
            "write it anew with onnxq plan; or, if its layers and thresholds hold for this model too, write "
            f'hash = "{now}"',
        )
    if file.measured:
        job.notes.append(noted("measured", said=file.measured))
    check_shapes(file, {tensor.name: tensor.shape for tensor in job.model.inputs})
    inputs = job.inputs
    if not (file.shares or sizes) or inputs.profiles or inputs.batch or inputs.profile_weights:
        return job  # the user's own count
    inputs = replace(inputs, profiles=file.sizes, profile_weights=file.shares)
    return replace(job, inputs=inputs, by_plan=True)
