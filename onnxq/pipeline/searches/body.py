"""The body: what stays float32 of what is not quantized, and the model as it is written.

The body comes last: rules are proved and scales chosen in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.heap import collected
from onnxq.base.reason import Reason
from onnxq.body.decide import Decision, above_db, decide
from onnxq.body.formats import DTYPES, Kind, narrowed
from onnxq.calib.stats import Stats
from onnxq.draft.body import BodyPlan
from onnxq.graph.model import Model
from onnxq.pipeline.building import Built, body_fault
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.search import ModelSearch
from onnxq.pipeline.state import RunRequest, RunState
from onnxq.quant.fits import fits_of
from onnxq.run import ort

SAMPLES = 4
"""How many samples say whether more has to stay float32."""


def decided(built: Built, stats: Stats, sampling: Sampling) -> Built:
    """The same, where it is decided what stays float32 of what is not quantized.

    Args:
        built: the quantized model.
        stats: the ranges of tensors.
        sampling: gives the samples that say what has to stay float32: those that chose scales.

    Raises:
        UserError: the model cannot have this body.
    """
    body = built.draft.body
    if body.kind is None:
        return built
    with built.job.step("body"):
        if body.decision is not None:  # a plan states it
            return built
        return built.with_body(_decided(built, body.kind, stats, sampling))


def last_form(built: Built, stats: Stats, sampling: Sampling) -> Built:
    """The model as it is written; see `decided`."""
    built = decided(built, stats, sampling)
    return built.finished() if built.job.target.explicit else built


def decided_again(built: Built, stats: Stats, sampling: Sampling) -> Built:
    """A model of which layers went back to float, as it is written.

    Their own biases are back: the body is decided anew if it was not asked to hold one. See `decided`.
    """
    body = built.draft.body
    if body.decision is not None and not body.decision.refitted <= _held(built, body.decision.kind):
        built = built.with_body(replace(body, decision=None))
    return last_form(built, stats, sampling)


def _decided(built: Built, kind: Kind, stats: Stats, sampling: Sampling) -> BodyPlan:
    """The body with what stays float32 of what is not quantized; `sampling` gives the samples that say it.

    Raises:
        UserError: the model cannot have this body.
    """
    job, body, floats = built.job, built.draft.body, built.floats
    ranges = {} if job.taken is None else dict(job.taken.ends(built.draft.plan, floats.model))
    ranges |= {name: (entry.min, entry.max) for name, entry in stats.tensors.items() if entry.size}
    samples: list[Mapping[str, np.ndarray]] = []
    if floats.whole and floats.runs and not job.in_float32 and sampling.parts is not None:
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
        )
    except ort.RunError as error:
        body = body.noting(f"the body did not run: {error}; what stays float32 is by ranges alone")
        decision = decide(floats.model, None, kind, ranges, (), io=body.io)
    except UserError:
        raise
    except Exception as error:  # a fault of ours: other searches go on
        return body.noting(body_fault(error))
    notes = _notes(decision, samples, floats.model, measured=sampling.parts is not None)
    collected()
    return replace(body.noting(*notes), decision=decision)


def _held(built: Built, kind: Kind) -> set[str]:
    """The biases of the float model in whose place all that reads them has others, which the type holds."""
    patches, model = built.draft.patches, built.floats.model
    count: Counter[str] = Counter()
    for fit in fits_of(patches, model):
        own = fit.node == fit.layer
        bias = patches.biases[fit.node] if own else patches.constants[fit.before]
        count[fit.before] += np.array_equal(narrowed(bias, kind).astype(bias.dtype), bias)
    tensors = model.graph.tensors()
    return {name for name, held in count.items() if name and held == len(tensors[name].outputs)}


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
                f"no range was measured for {names[0]!r}{more}: the nodes that make or read it stay "
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


def _left_out(request: RunRequest, state: RunState, why: Reason) -> RunState:
    built = state.built.with_body(state.built.draft.body.noting(f"the body stays as it is: {why}"))
    return replace(state, built=built.finished() if built.job.target.explicit else built)


BODY = ModelSearch(
    "body",
    lambda request, state: state.built.made is None,
    lambda request, state: replace(state, built=last_form(state.built, state.stats, request.sampling)),
    _left_out,
    needed=True,
)
