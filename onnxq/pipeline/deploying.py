"""The sizes that a run decides for: as they are stated, else those of the samples."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from onnxq.compiled.verdict import Verdict
from onnxq.data.samples import Sample
from onnxq.data.sources import Source
from onnxq.data.split import Split
from onnxq.documents.deployment import DeploymentPart, DimensionDeployed, NamedDeployment, SizesWorth
from onnxq.errors import UserError
from onnxq.graph.layers import layer_of, multiplies, other_macs
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.pipeline.job import Job
from onnxq.remarks import remark
from onnxq.run import ort
from onnxq.run.deployment import Deployment, End, Shape
from onnxq.run.deployments import main_of
from onnxq.run.refusal import plain


@dataclass(frozen=True, slots=True)
class Deployed:
    """What a model is deployed for, by its samples.

    Attributes:
        deployments: one, or several that have names.
        usual: of each the sample that has the usual sizes, but for the batch; None without data.
        seen: the shapes of each sample, by its index; none where one sample told the sizes of all.
    """

    deployments: tuple[Deployment, ...]
    usual: tuple[Sample | None, ...]
    seen: Mapping[int, Mapping[str, Shape]] = field(default_factory=dict)

    def without_bad(self, bad: Collection[int]) -> Deployed:
        """It, where samples of these indices turned out to be bad."""
        if not any(index in bad for index in self.seen):
            return self
        order = list(self.seen)
        found = []
        for one in self.deployments:
            own = [order[place] for place in one.fitting] if one.name else order
            found.append(one.without_bad([self.seen[index] for index in own if index not in bad]))
        return replace(self, deployments=tuple(found))


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
    (one, *more) = stated
    if not parts.indices or (not (more or one.name) and set(one.spans) <= {*one.batch}):
        shapes = {name: array.shape for name, array in first.feeds.items()}
        found = job.deployments([shapes], every=False)
        return Deployed(found, (first,) * len(found))
    with job.step("sizes"):
        sizes = source.shapes(parts.indices)
        found = job.deployments(sizes)
        usual = tuple(
            next(source.good([] if one.nearest is None else [parts.indices[one.nearest]]), first)
            for one in found
        )
        return Deployed(found, usual, dict(zip(parts.indices, sizes, strict=True)))


_ENDS: tuple[End, ...] = ("smallest", "largest")
_USUAL_BATCH = 16  # a batch that many deploy with, where nobody said one


Worth = tuple[tuple[SizesWorth, ...], ...]
"""What could be int8 in each deployment, in their order."""


def worths(job: Job, deployments: Sequence[Deployment]) -> Worth:
    """What could be int8 at the usual sizes, at the ends of their range, and in a batch that is often used.

    Returns:
        Of each deployment, at the usual sizes first; none where all sizes are static, or some are not known.
    """
    return tuple(_worth(job, one) for one in deployments)


def _worth(job: Job, deployment: Deployment) -> tuple[SizesWorth, ...]:
    if not deployment.spans:
        return ()
    shapes: dict[str, Mapping[str, Shape]] = {"the usual sizes": deployment.usual}
    for end in _ENDS:
        if deployment.shapes(end) != deployment.usual:
            shapes[f"the {end} sizes"] = deployment.shapes(end)
    if any(deployment.spans[dim].origin == "assumed" for dim in deployment.batch):
        shapes[f"a batch of {_USUAL_BATCH}"] = deployment.batched(_USUAL_BATCH)
    model, found = job.model, list[SizesWorth]()
    was = model.typical_shapes, model.workloads
    try:
        for at, sizes in shapes.items():
            model.set_typical_input(sizes)
            share = _share(model)
            if share is not None:
                found.append(SizesWorth(at, share))
    except Exception as error:  # a fault of ours here costs the sentence, not the run
        remark(f"what could be int8 at other sizes is not known: a fault of onnxq ({error!r})")
        return ()
    finally:
        model.typical_shapes, model.workloads = was
    return tuple(found)


def deployment_parts(
    deployments: Sequence[Deployment],
    worth: Worth,
    verdicts: Sequence[Verdict] = (),
    activation_bytes: Sequence[int | None] = (),
) -> dict[str, Any]:
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
    named = [
        NamedDeployment(
            one.name, one.weight, one.is_weight_assumed, len(one.fitting), part.dimensions,
            {name: tuple(map(tuple, profile)) for name, profile in one.profiles.items()},
            part.worth, None if size is None else size / 1e6, verdict,
        )
        for one, part, size, verdict in itertools.zip_longest(deployments, parts, activation_bytes, verdicts)
        if one.name
    ]  # fmt: skip
    main = deployments.index(main_of(deployments))
    return {"deployment": asdict(parts[main]), "deployments": named}


def _dimensions(deployment: Deployment) -> tuple[DimensionDeployed, ...]:
    return tuple(
        DimensionDeployed(name, one.smallest, one.usual, one.largest, one.origin, name in deployment.batch)
        for name, one in deployment.spans.items()
    )


def _share(model: Model) -> float | None:
    """The share of eligible layers in all multiply-accumulates; None where a size is not known."""
    eligible, total = 0, 0
    for raw in model.graph.nodes:
        node = Node(model, raw)
        layer = layer_of(node, quantized=True) if multiplies(node) else None
        macs = other_macs(node) if layer is None else layer.macs
        if macs is None:
            return None
        total += macs
        if layer is not None and layer.ineligible is None:
            eligible += macs
    return eligible / total if total else None


def that_runs(
    deployment: Deployment, session: ort.Session, usual: Sample
) -> tuple[Deployment, tuple[str, ...]]:
    """The deployment, but for an end at which the model does not run: there the usual sizes are the end.

    Args:
        deployment: what is deployed for.
        session: the model.
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
        try:
            session.run(
                {name: np.resize(array, shapes.get(name, array.shape)) for name, array in usual.feeds.items()}
            )
        except ort.RunError as error:
            sizes = ", ".join(f"{name}={'x'.join(map(str, shapes[name]))}" for name in deployment.profiles)
            where = f" of deployment {deployment.name!r}" if deployment.name else ""
            why = f"the model does not run at the {end} sizes{where}, {sizes}: {plain(str(error))}"
            if deployment.is_stated:
                raise UserError(why, hint="state others: --profile INPUT=MIN:OPT:MAX") from error
            notes.append(
                f"{why}; the engine's profile ends at the usual sizes there (--profile states others)"
            )
            for name, (low, middle, high) in profiles.items():
                profiles[name] = (middle, middle, high) if end == "smallest" else (low, middle, middle)
    return replace(deployment, profiles=profiles), tuple(notes)
