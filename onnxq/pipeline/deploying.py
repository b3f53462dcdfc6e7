"""The sizes that a run decides for: as they are stated, else those of the samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxq.data.samples import Sample
from onnxq.data.sources import Source
from onnxq.data.split import Split
from onnxq.documents.deployment import SizesWorth
from onnxq.errors import UserError
from onnxq.graph.layers import layer_of, multiplies, other_macs
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.pipeline.job import Job
from onnxq.remarks import remark
from onnxq.run import ort
from onnxq.run.deployment import Deployment, End, Shape
from onnxq.run.refusal import plain


def deploy(job: Job, source: Source, parts: Split, first: Sample) -> tuple[Deployment, Sample]:
    """What a model is deployed for, and the sample that has the usual sizes, but for the batch.

    Where the batch alone is open, and of an iterator, one sample tells the sizes of all.

    Args:
        job: of the model.
        source: the samples.
        parts: which of them are read.
        first: one of them.

    Raises:
        UserError: what is stated of the sizes does not fit the model.
    """
    stated = job.deployment()
    if not parts.indices or set(stated.spans) <= {*stated.batch}:
        return job.deployment([{name: array.shape for name, array in first.feeds.items()}]), first
    with job.step("sizes"):
        found = job.deployment(source.shapes(parts.indices))
        usual = [] if found.nearest is None else [parts.indices[found.nearest]]
        return found, next(source.good(usual), first)


_ENDS: tuple[End, ...] = ("smallest", "largest")
_USUAL_BATCH = 16  # a batch that many deploy with, where nobody said one


def worths(job: Job, deployment: Deployment) -> tuple[SizesWorth, ...]:
    """What could be int8 at the usual sizes, at the ends of their range, and in a batch that is often used.

    Returns:
        At the usual sizes first; none where all sizes are static, or some are not known.
    """
    if not deployment.spans:
        return ()
    shapes: dict[str, Mapping[str, Shape]] = {"the usual sizes": deployment.usual}
    for end in _ENDS:
        if deployment.shapes(end) != deployment.usual:
            shapes[f"the {end} sizes"] = deployment.shapes(end)
    if any(deployment.spans[dim].origin == "assumed" for dim in deployment.batch):
        shapes[f"a batch of {_USUAL_BATCH}"] = deployment.batched(_USUAL_BATCH)
    was, found = job.model.typical_shapes, list[SizesWorth]()
    try:
        for at, sizes in shapes.items():
            job.model.set_typical_input(sizes)
            share = _share(job.model)
            if share is not None:
                found.append(SizesWorth(at, share))
    except Exception as error:  # a fault of ours here costs the sentence, not the run
        remark(f"what could be int8 at other sizes is not known: a fault of onnxq ({error!r})")
        return ()
    finally:
        job.model.typical_shapes = was
    return tuple(found)


def deployment_part(deployment: Deployment, worth: tuple[SizesWorth, ...]) -> dict[str, Any]:
    """The report's part on the sizes, and on what they decide."""
    return {**deployment.to_json(), "worth": [dataclasses.asdict(one) for one in worth]}


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
            why = f"the model does not run at the {end} sizes, {sizes}: {plain(str(error))}"
            if deployment.is_stated:
                raise UserError(why, hint="state others: --profile INPUT=MIN:OPT:MAX") from error
            notes.append(
                f"{why}; the engine's profile ends at the usual sizes there (--profile states others)"
            )
            for name, (low, middle, high) in profiles.items():
                profiles[name] = (middle, middle, high) if end == "smallest" else (low, middle, middle)
    return dataclasses.replace(deployment, profiles=profiles), tuple(notes)
