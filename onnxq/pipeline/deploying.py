"""The sizes that a run decides for: as they are stated, else those of the samples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import code_of, noted
from onnxq.base.remarks import remark
from onnxq.base.shown import count
from onnxq.compiled.verdict import Verdict
from onnxq.data.samples import Sample
from onnxq.data.sources import Source
from onnxq.data.split import Split
from onnxq.documents.deployment import DeploymentPart, DimensionDeployed, NamedDeployment, SizesWorth
from onnxq.graph.baked import baked_sizes
from onnxq.graph.layers import layer_of, multiplies, other_macs
from onnxq.graph.model import Model
from onnxq.graph.view import Tensor
from onnxq.pipeline.job import Job
from onnxq.run import ort
from onnxq.run.deployment import Deployment, End, Shape
from onnxq.run.deployments import main_of
from onnxq.run.in_parts import Runs
from onnxq.run.plain_words import plain
from onnxq.run.size_steps import size_steps


@dataclass(frozen=True, slots=True)
class Deployed:
    """What a model is deployed for, by its samples.

    Attributes:
        deployments: one, or several that have names.
        usual: of each the sample that has the usual sizes, but for the batch, one made up where it has none;
            None without data.
        seen: the shapes of each sample, by its index; none where one sample told the sizes of all.
        notes: what the user may not expect of sizes at which the model does not run.
    """

    deployments: tuple[Deployment, ...]
    usual: tuple[Sample | None, ...]
    seen: Mapping[int, Mapping[str, Shape]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def without_bad(self, bad: Collection[int]) -> Deployed:
        """It, where samples of these indices turned out to be bad."""
        if not any(index in bad for index in self.seen):
            return self
        order = list(self.seen)
        kept = []
        for deployment in self.deployments:
            own = [order[place] for place in deployment.fitting] if deployment.name else order
            kept.append(deployment.without_bad([self.seen[index] for index in own if index not in bad]))
        return replace(self, deployments=tuple(kept))

    def not_calibrated(self) -> tuple[str, ...]:
        """The sizes that are stated and that no sample has, in words; but for the batch."""
        order, told = list(self.seen), list[str]()
        for deployment in self.deployments if order else ():
            own = [self.seen[order[place]] for place in deployment.fitting]
            own = own if deployment.name else list(self.seen.values())
            for dim in sorted(deployment.stated.difference(deployment.batch)):
                span = deployment.spans[dim]
                sizes = [size for shapes in own if (size := deployment.size(dim, shapes)) is not None]
                if sizes and (span.smallest < min(sizes) or span.largest > max(sizes)):
                    of = f"deployment {deployment.name!r}: " if deployment.name else ""
                    has = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else str(min(sizes))
                    told.append(noted("deployed-beyond", where=of, dimension=dim, span=span, has=has))
        return tuple(told)


def deploy(job: Job, source: Source, parts: Split, first: Sample) -> Deployed:
    """What a model is deployed for.

    Where the batch alone is open, and of an iterator, one sample tells the sizes of all.

    Args:
        job: of the model.
        source: the samples.
        parts: which of them are read.
        first: one of them.

    Raises:
        UserError: what is stated of the sizes does not fit the model, or no sample.
    """
    stated = job.deployments()
    (only, *more) = stated
    if not parts.indices or (not (more or only.name) and set(only.spans) <= {*only.batch}):
        shapes = {name: array.shape for name, array in first.feeds.items()}
        _check_lengths(job, source, [(first.index, shapes)])
        run = _that_run(job, job.deployments([shapes], every=False), first)
        return Deployed(
            run, tuple(_resized(first, deployment) if _has_none(deployment) else first for deployment in run)
        )
    with job.step("sizes"):
        sizes = source.shapes(parts.indices)
        _check_lengths(job, source, list(zip(parts.indices, sizes, strict=True)))
        run = _that_run(job, job.deployments(sizes), first)
        usual = tuple(
            _resized(first, deployment)
            if _has_none(deployment)
            else next(
                source.good([] if deployment.nearest is None else [parts.indices[deployment.nearest]]), first
            )
            for deployment in run
        )
        return Deployed(run, usual, dict(zip(parts.indices, sizes, strict=True)))


def _check_lengths(job: Job, source: Source, samples: Sequence[tuple[int, Mapping[str, Shape]]]) -> None:
    """Refuses samples of a decoder whose mask is not as long as past and new tokens together.

    Raises:
        UserError: there is one, and bad samples are not to be left out.
    """
    inputs = [(spec.name, spec.shape or ()) for spec in job.input_specs()]
    for dims in () if job.lengths is None or source.skip_bad else job.lengths.sums:
        places = [
            next(((name, shape.index(dim)) for name, shape in inputs if dim in shape), None) for dim in dims
        ]
        for index, shapes in samples:
            sizes = [
                shapes[place[0]][place[1]]
                for place in places
                if place is not None and len(shapes.get(place[0], ())) > place[1]
            ]
            if len(sizes) == len(dims) and sizes[0] + sizes[1] != sizes[2]:
                past, new, both = (place[0] for place in places if place is not None)
                raise UserError(
                    f"{_where(source, index)}: {both} is of {count(sizes[2], 'token')}; {past} has "
                    f"{count(sizes[0], 'token')} and {new} {count(sizes[1], 'new one')}, which makes "
                    f"{sizes[0] + sizes[1]}",
                    hint=f"write {both} for {sizes[0] + sizes[1]} tokens, those of the past included, or "
                    "leave such samples out: --skip-bad",
                )


def _where(source: Source, index: int) -> str:
    """Where a sample is from."""
    return next((sample.where for sample in source.good([index])), f"sample {index}")


def _that_run(job: Job, deployments: tuple[Deployment, ...], first: Sample) -> tuple[Deployment, ...]:
    """The deployments; where one of them is assumed and the model does not run in it, the other alone."""
    assumed = next((one for one in deployments if one.is_assumed), None)
    if assumed is None:
        return deployments
    (made_up,) = job.feeds([_resized(first, assumed)])
    model = job.part(job.model.to_proto())[0]
    try:
        ort.load(job.runnable(model), optimize=False, data_dir=job.model.data_dir).run(made_up.feeds)
    except ort.RunError as error:
        remark(noted("left-out-deployment", deployment=assumed.name, error=plain(str(error))))
        return tuple(
            replace(one, weight=1.0, is_weight_assumed=False) for one in deployments if one is not assumed
        )
    return deployments


def _has_none(deployment: Deployment) -> bool:
    """Whether a deployment of several has no sample."""
    return bool(deployment.name) and not deployment.fitting


def _resized(sample: Sample, deployment: Deployment) -> Sample:
    """A sample with the usual sizes of a deployment, whose values fill them as often as they have to."""
    usual = deployment.usual
    feeds = {
        name: np.resize(array, usual.get(name, array.shape)).astype(array.dtype)
        for name, array in sample.feeds.items()
    }
    return replace(sample, feeds=feeds)


_ENDS: tuple[End, ...] = ("smallest", "largest")
_USUAL_BATCH = 16  # a batch that many deploy with, where nobody said one


Worth = tuple[tuple[SizesWorth, ...], ...]
"""What could be int8 in each deployment, in their order."""


def worths(model: Model, deployments: Sequence[Deployment]) -> Worth:
    """What could be int8 at the usual sizes, at the ends of their range, and in a batch that is often used.

    Returns:
        Of each deployment, at the usual sizes first, where all are static these alone; none where some are
        not known.
    """
    return tuple(_worth(model, one) for one in deployments)


def _worth(model: Model, deployment: Deployment) -> tuple[SizesWorth, ...]:
    shapes: dict[str, Mapping[str, Shape]] = {"the usual sizes": deployment.usual}
    for end in _ENDS:
        if deployment.shapes(end) != deployment.usual:
            shapes[f"the {end} sizes"] = deployment.shapes(end)
    if any(deployment.spans[dim].origin == "assumed" for dim in deployment.batch):
        shapes[f"a batch of {_USUAL_BATCH}"] = deployment.batched(_USUAL_BATCH)
    found = list[SizesWorth]()
    was = model.typical_shapes, model.workloads
    try:
        for at, sizes in shapes.items():
            if sizes is deployment.usual:  # measured where inference leaves sizes open
                own = [dict(load.shapes) for load in model.workloads if load.name == deployment.name]
                model.typical_shapes, model.workloads = (*own, model.typical_shapes)[0], ()
            else:
                model.set_typical_input(sizes)
            worth = _worth_at(model, at)
            if worth is not None:
                found.append(worth)
            elif not found:
                return ()
    except Exception as error:  # a fault of ours here costs the sentence, not the run
        remark(noted("other-sizes-unknown", error=error))
        return ()
    finally:
        model.typical_shapes, model.workloads = was
    return tuple(found)


class DeployedParts(TypedDict):
    """The report's parts on the sizes."""

    deployment: DeploymentPart
    deployments: tuple[NamedDeployment, ...]


def deployment_parts(
    deployments: Sequence[Deployment],
    worth: Worth,
    verdicts: Sequence[Verdict] = (),
    activation_bytes: Sequence[int | None] = (),
) -> DeployedParts:
    """The report's parts on the sizes, and on what they decide.

    Args:
        deployments: what was decided for; `deployment` is the one with most of the work.
        worth: what could be int8 in them.
        verdicts: what int8 does to the engine, in each; none where nothing was compiled.
        activation_bytes: what the engine needs for activations, in each; likewise.
    """
    parts = [
        DeploymentPart(_dimensions(one), own)
        for one, own in zip(deployments, worth or [()] * len(deployments), strict=True)
    ]
    named = tuple(
        NamedDeployment(
            one.name, one.weight, one.is_weight_assumed, len(one.fitting), part.dimensions,
            {name: tuple(map(tuple, profile)) for name, profile in one.profiles.items()},
            part.worth, None if size is None else size / 1e6, verdict,
        )
        for one, part, size, verdict in itertools.zip_longest(deployments, parts, activation_bytes, verdicts)
        if one.name
    )  # fmt: skip
    return DeployedParts(deployment=parts[deployments.index(main_of(deployments))], deployments=named)


def _dimensions(deployment: Deployment) -> tuple[DimensionDeployed, ...]:
    return tuple(
        DimensionDeployed(
            name,
            one.smallest,
            one.usual,
            one.largest,
            one.origin,
            name in deployment.batch and not deployment.is_batch_baked,
        )
        for name, one in deployment.spans.items()
    )


def _worth_at(model: Model, at: str) -> SizesWorth | None:
    """What could be int8 at the typical sizes of a model; None where a size is not known."""
    eligible = few = total = weights = moved = 0
    for node in model.nodes:
        layer = layer_of(node, quantized=True) if multiplies(node) else None
        macs = other_macs(node) if layer is None else layer.macs
        if macs is None:
            return None
        total += macs
        why = None if layer is None else layer.ineligible
        if layer is not None:
            eligible += macs if why is None else 0
            few += macs if code_of(why or "") == "few-rows" else 0
            weights += layer.outputs * layer.terms
        if macs:
            read = [t for t in node.operands(2) if t is not None and (layer is None or t != layer.weight)]
            moved += sum(math.prod(_known(t)) for t in (*read, node.outputs[0]))
    if not total:
        return None
    return SizesWorth(at, eligible / total, weights / max(1, weights + moved), 2 * few > total)


def _known(tensor: Tensor) -> Shape:
    """The typical sizes of a tensor, without those that are not known."""
    return tuple(dim for dim in tensor.typical_shape or () if isinstance(dim, int))


_MOST_FED = 1 << 27
"""Bytes of inputs up to which a model is run at an end of its sizes: what it computes takes far more."""


def that_runs(
    deployment: Deployment, session: Runs, usual: Sample, model: Model
) -> tuple[Deployment, tuple[str, ...]]:
    """The deployment, but for an end at which the model does not run: there the usual sizes are the end.

    Args:
        deployment: what is deployed for.
        session: the model, as it runs.
        model: the model, which tells what is baked in.
        usual: a sample whose values fill the inputs, as often as they have to.

    Returns:
        The deployment, and what the user may not expect.

    Raises:
        UserError: the model does not run at sizes that are stated.
    """
    profiles, notes = dict(deployment.profiles), []
    for end in _ENDS:
        shapes = deployment.shapes(end)
        if shapes == deployment.usual:
            continue
        feeds = {name: (array, shapes.get(name, array.shape)) for name, array in usual.feeds.items()}
        size = sum(math.prod(shape) * array.itemsize for array, shape in feeds.values())
        if size > _MOST_FED:
            notes.append(noted("sizes-not-tried", end=end, gigabytes=size / 1e9))
            continue
        try:
            session.run({name: np.resize(array, shape) for name, (array, shape) in feeds.items()})
        except ort.RunError as error:
            sizes = ", ".join(f"{name}={'x'.join(map(str, shapes[name]))}" for name in deployment.profiles)
            where = f" of deployment {deployment.name!r}" if deployment.name else ""
            baked = [
                one
                for one in baked_sizes(model)
                if deployment.size(one.symbol, shapes) not in (None, one.size)
            ]
            said = "; ".join(f"{one.node.name!r} ({one.node.op}): {one}" for one in baked)
            why = noted("sizes-do-not-run", end=end, where=where, sizes=sizes, why=said or plain(str(error)))
            if deployment.is_stated and not deployment.is_assumed:
                steps = [] if baked else size_steps(session, usual.feeds, deployment.names, deployment.batch)
                hint = noted("sizes-to-state.baked" if baked else "sizes-to-state")
                for one in steps:
                    hint = noted("sizes-to-state.step", dimension=one.dimension, step=one.step)
                raise UserError(why, hint=hint) from error
            notes.append(noted("profile-ends", why=why))
            for name, (low, middle, high) in profiles.items():
                profiles[name] = (middle, middle, high) if end == "smallest" else (low, middle, middle)
    return replace(
        deployment, profiles=profiles, is_batch_baked=_is_batch_baked(deployment, session, usual)
    ), tuple(notes)


def _is_batch_baked(deployment: Deployment, session: Runs, usual: Sample) -> bool:
    """Whether a batch that is named dynamic is baked in: nobody stated one, and twice its size fails."""
    spans = [deployment.spans[dim] for dim in deployment.batch]
    if not spans or any(span.origin == "stated" or span.smallest < span.largest for span in spans):
        return False
    shapes = deployment.batched(2 * max(span.usual for span in spans))
    feeds = {name: (array, shapes.get(name, array.shape)) for name, array in usual.feeds.items()}
    if sum(math.prod(shape) * array.itemsize for array, shape in feeds.values()) > _MOST_FED:
        return False
    try:
        session.run({name: np.resize(array, shape) for name, (array, shape) in feeds.items()})
    except ort.RunError:
        return True
    return False
