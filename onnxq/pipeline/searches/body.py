"""The body: what stays float32 of what is not quantized, and the model as it is written.

The body comes last: rules are proved and scales chosen in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.heap import collected
from onnxq.base.reason import Reason, code_of, noted
from onnxq.body.bounds import ASSUMED, assumed
from onnxq.body.decide import Decision, above_db, decide
from onnxq.body.formats import DTYPES, Kind, loss, narrowed
from onnxq.body.islands import MARGIN
from onnxq.calib.stats import Stats
from onnxq.graph.model import Model
from onnxq.graph.moves import MOVES
from onnxq.graph.pairs import is_dequantized
from onnxq.graph.view import Node, every_node
from onnxq.pipeline.building import Built, body_fault
from onnxq.pipeline.run import ModelSearch, Run
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.verifying import runner
from onnxq.quant.draft.body import BodyPlan
from onnxq.quant.fits import fits_of
from onnxq.rewrite.whole import WholeModel
from onnxq.run import ort
from onnxq.run.compare import OutputAccuracy, compare_models

_BY_RANGE = ("no-range", "range")
"""The codes of what stays float32 as its range is too wide or not known."""

_HAND_ON = (*MOVES, "Relu", "Concat")
"""Operators that give what they read, or zero: they round nothing."""

_NAMED = 3  # nodes that a note names

SAMPLES = 4
"""How many samples say whether more has to stay float32."""


def decided(
    built: Built, stats: Stats, sampling: Sampling, made_up: Sequence[Mapping[str, np.ndarray]] | None = None
) -> Built:
    """The same, where it is decided what stays float32 of what is not quantized.

    Args:
        built: the quantized model.
        stats: the ranges of tensors.
        sampling: gives the samples that say what has to stay float32: those that chose scales.
        made_up: samples that say so where there are no data; what inputs reach is assumed.

    Raises:
        UserError: the model cannot have this body.
    """
    body = built.draft.body
    if body.kind is None:
        return built
    with built.job.step("body"):
        if body.decision is not None:  # a plan states it
            return built
        return built.with_body(_decided(built, body.kind, stats, sampling, made_up))


def last_form(
    built: Built, stats: Stats, sampling: Sampling, made_up: Sequence[Mapping[str, np.ndarray]] | None = None
) -> Built:
    """The model as it is written; see `decided`."""
    built = decided(built, stats, sampling, made_up)
    return built.finished() if built.job.target.explicit else built


def decided_again(built: Built, stats: Stats, sampling: Sampling) -> Built:
    """A model of which layers went back to float, as it is written.

    Their own biases are back: the body is decided anew if it was not asked to hold one. See `decided`.
    """
    body = built.draft.body
    if body.decision is not None and not body.decision.refitted <= _held(built, body.decision.kind):
        built = built.with_body(replace(body, decision=None))
    return last_form(built, stats, sampling)


def of_bounds(built: Built, stats: Stats, sampling: Sampling) -> tuple[Built, list[OutputAccuracy]]:
    """The model as it is written, where there are no data, and how near it is on samples that are made up.

    Raises:
        UserError: the model cannot have this body.
    """
    floats = built.floats
    reference = Model(floats.reference, None, floats.model.data_dir)
    samples = WholeModel(reference).made_up(2 * SAMPLES) if floats.whole and floats.runs else []
    built = last_form(built, stats, sampling, samples[:SAMPLES])
    if not samples:
        return built, []
    with built.job.step("verify"):
        near = compare_models(
            ort.load(floats.reference, data_dir=reference.data_dir),
            runner(built.job, built.written.proto, emulate=True),
            samples[SAMPLES:],
        )
    return built.with_body(built.draft.body.noting(noted("made-up-samples", samples=SAMPLES))), near


def _decided(
    built: Built,
    kind: Kind,
    stats: Stats,
    sampling: Sampling,
    made_up: Sequence[Mapping[str, np.ndarray]] | None,
) -> BodyPlan:
    """The body with what stays float32 of what is not quantized; see `decided`.

    Raises:
        UserError: the model cannot have this body.
    """
    job, body, floats = built.job, built.draft.body, built.floats
    ranges = {} if job.taken is None else dict(job.taken.ends(built.draft.plan, floats.model))
    ranges |= {name: (entry.min, entry.max) for name, entry in stats.tensors.items() if entry.size}
    samples: list[Mapping[str, np.ndarray]] = []
    if made_up is not None:
        ranges, samples = assumed(floats.model), [*made_up]
    elif floats.whole and floats.runs and not job.in_float32 and sampling.parts is not None:
        samples = list(islice(sampling.feeds(sampling.choosing()), SAMPLES))
    try:
        decision = decide(
            floats.model,
            built.proto,
            kind,
            ranges,
            samples,
            proto=floats.proto,
            io=body.io,
            above=above_db(body.gained_db),
            refitted=_held(built, kind),
            asked=body.asked,
            left=lambda known: _rounds(built, known),
        )
    except ort.RunError as error:
        body = body.noting(noted("body-did-not-run.error", error=error))
        decision = decide(floats.model, None, kind, ranges, (), io=body.io, asked=body.asked)
    except UserError:
        raise
    except Exception as error:  # a fault of ours: other searches go on
        return body.noting(body_fault(error))
    if made_up is None:
        notes = _without_range(decision, floats.model, measured=sampling.parts is not None)
    else:
        notes = [*_unbounded(decision, floats.model)]
    if samples and decision.settled is None:
        decision = replace(decision, stays={**_unheld(built, kind), **decision.stays})
    notes += _notes(decision, samples)
    collected()
    return replace(body.noting(*notes), decision=decision)


def _rounds(built: Built, decision: Decision) -> bool:
    """Whether a body rounds what int8 does not: else running it says nothing.

    A quantized layer gives what it gives, and what hands its values on to the next pair adds no error to it.
    """
    halved, model = decision.convert(built.inserted.model).halved, built.inserted.model
    nodes = [node for node in every_node(model) if node.name in halved]
    return any(node.domain or (node.op not in _HAND_ON and not _reads_pairs_alone(node)) for node in nodes)


def _reads_pairs_alone(node: Node) -> bool:
    """Whether a node reads pairs alone, beside constants."""
    read = [tensor for tensor in node.inputs if tensor is not None and not tensor.is_constant]
    return bool(read) and all(map(is_dequantized, read))


def _unheld(built: Built, kind: Kind) -> dict[str, Reason]:
    """The quantized layers whose float weights a type cannot hold, and why: so it is with their codes."""
    tensors = built.floats.model.tensors()
    found: dict[str, Reason] = {}
    for site in built.draft.plan.sites:
        values = tensors[site.tensor].constant if site.kind == "weight" else None
        if values is not None and (why := loss(values, kind)) is not None:
            found |= {edge.node: why for edge in site.readers}
    return found


def _held(built: Built, kind: Kind) -> set[str]:
    """The biases of the float model in whose place all that reads them has others, which the type holds."""
    patches, model = built.draft.patches, built.floats.model
    count: Counter[str] = Counter()
    for fit in fits_of(patches, model):
        own = fit.node == fit.layer
        bias = patches.biases[fit.node] if own else patches.constants[fit.before]
        count[fit.before] += np.array_equal(narrowed(bias, kind).astype(bias.dtype), bias)
    tensors = model.tensors()
    return {name for name, held in count.items() if name and held == tensors[name].times_read}


def _without_range(decision: Decision, model: Model, *, measured: bool) -> list[str]:
    """What no range is known of; `measured`: whether this run took the ranges itself."""
    notes = []
    unknown = decision.islands.without_range if decision.islands is not None else ()
    reached = {tensor.name for node in model.nodes for tensor in node.outputs}
    reached |= {tensor.name for tensor in model.inputs}
    for names, code in (
        (
            [name for name in unknown if name in reached],
            "body-ranges.not-measured" if measured else "body-ranges.not-given",
        ),
        ([name for name in unknown if name not in reached], "body-ranges.in-bodies"),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            notes.append(noted(code, tensor=names[0], more=more))
    return notes


def _notes(decision: Decision, samples: Sequence[Any]) -> list[str]:
    """What the user may not expect of a body."""
    notes = []
    dtype = DTYPES[decision.kind]
    if decision.io and decision.islands is not None:
        for name, why in decision.islands.float32_io.items():
            notes.append(noted("body-io", tensor=name, why=why))
    if not samples:
        notes.append(noted("body-did-not-run", dtype=dtype))
    elif decision.settled is not None and not decision.settled.reached:
        notes.append(noted("body-further", dtype=dtype))
    return notes


def _unbounded(decision: Decision, model: Model) -> Iterator[str]:
    """What is said where there were no data: what was assumed, and what data would free."""
    if decision.kind == "fp16":
        yield noted("body-ranges.no-data", assumed=ASSUMED, margin=MARGIN)
    nodes = {node.name: node.op for node in every_node(model)}
    free = {n: why for n, why in decision.stays.items() if n in nodes and code_of(why) in _BY_RANGE}
    if free:
        named = [f"{name} ({nodes[name]}: {why})" for name, why in islice(free.items(), _NAMED)]
        more = f" and {len(free) - _NAMED} more" if len(free) > _NAMED else ""
        stay = "node stays" if len(free) == 1 else "nodes stay"
        yield noted("body-ranges.free", count=len(free), stay=stay, names=", ".join(named), more=more)


def _left_out(run: Run, why: Reason) -> Run:
    built = run.built.with_body(run.built.draft.body.noting(noted("body-as-it-is", why=why)))
    return replace(run, built=built.finished() if built.job.target.explicit else built)


BODY = ModelSearch(
    "body",
    lambda run: run.built.made is None,
    lambda run: replace(run, built=last_form(run.built, run.stats, run.sampling)),
    _left_out,
    needed=True,
)
