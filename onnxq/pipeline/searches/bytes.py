"""What has the compiled engine move more bytes than plain float16 for a nearer result: it is undone.

That is float32 in the body for the sake of an output, and steps of repair. What a step costs is predicted
from shapes before it is kept, but the body comes later, and the engine may say otherwise. There are two ways
back: the same with those nodes in half precision; and repair made once more with less room, then with none,
all that was fitted beside it fitted anew. The second is left out where the first is as near as the file that
moves too much: with less room for repair none would be nearer. Else the one whose file is nearer is taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from onnxq.advice.worth import Worth, worth_of
from onnxq.base.reason import Reason, noted, reason
from onnxq.body.decide import Decision
from onnxq.body.emulate import LogitsName, Tapped
from onnxq.graph.logits import logits_of
from onnxq.judge.about_mean import AboutMeanGroups
from onnxq.judge.acceptance import GROUPS, Levels, judged
from onnxq.judge.policies import BEST_OF_SEVERAL, TOGETHER
from onnxq.pipeline.run import ModelSearch, Run, searched
from onnxq.pipeline.searches.body import BODY
from onnxq.pipeline.searches.compile import COMPILE
from onnxq.pipeline.searches.repair import REPAIR
from onnxq.pipeline.verifying import loading, runner
from onnxq.quant.plan import QuantPlan
from onnxq.repair.engine_bytes import engine_bytes
from onnxq.repair.ledger import RepairStep, taking
from onnxq.run import ort
from onnxq.run.ort import Feeds
from onnxq.task.counted import counted

_SAMPLES = 16
"""How many samples say which file is nearer."""


def _wanted(run: Run) -> bool:
    worth = _worth(run)
    if worth is None or not worth.is_more or not run.request.bounds_bytes:
        return False
    return (run.unrepaired is not None and _dearest(run) is not None) or _in_half(run) is not None


def _undone(run: Run) -> Run:
    """The nearest file of those that move fewer bytes; where one moves no more than float16, of these."""
    in_half = _with_half_body(run)
    if in_half is not None and not _moves_more(in_half) and _is_as_near(in_half, run):
        return in_half
    found = [one for one in (_with_less_room(run), in_half) if one]
    enough = [one for one in found if not _moves_more(one)] or found
    if not enough[1:]:
        return enough[0] if enough else run
    less, half = enough
    before, after = _levels(enough)
    return half if judged(before, after, TOGETHER).kept else less


def _is_as_near(one: Run, other: Run) -> bool:
    """Whether another file is not shown to be nearer than one."""
    before, after = _levels((one, other))
    return not judged(before, after, BEST_OF_SEVERAL).kept


def _with_half_body(run: Run) -> Run | None:
    """With no node in float32 for the sake of an output; None where that moves no fewer bytes."""
    worth, decision, built = _worth(run), _in_half(run), run.built
    assert worth is not None
    if decision is None:
        return None
    nodes = len(built.draft.body.decision.stays) - len(decision.stays)  # type: ignore[union-attr]
    body = replace(built.draft.body, decision=decision)
    half = searched((COMPILE,), run.of(built.with_body(body).finished()))
    now = _worth(half)
    if now is None or now.ratio >= worth.ratio:
        return None
    note = noted("half-for-bytes", nodes=nodes, format=worth.format, moves=worth.moves, ratio=now.ratio)
    return replace(half, built=half.built.with_body(half.built.draft.body.noting(note)))


def _in_half(run: Run) -> Decision | None:
    """The body with nothing in float32 for the sake of an output; None where nothing is."""
    decision, floats = run.built.draft.body.decision, run.built.floats
    return None if decision is None else decision.in_half(floats.model)


def _with_less_room(run: Run) -> Run | None:
    """Repaired once more, with less room by what the engine moves more than predicted; then with none.

    None where no step moves more, or that moves no fewer bytes.
    """
    before, step, worth = run.unrepaired, _dearest(run), _worth(run)
    if before is None or step is None:
        return None
    assert worth is not None
    over = math.inf if run.request.bytes_over else worth.ratio - _predicted(run)
    request = replace(run.request, bytes_over=over)
    before = replace(before, request=request, heads=run.heads, formats=run.formats, alone=run.alone)
    again = searched((REPAIR, BODY, COMPILE), before)
    now = _worth(again)
    if now is None or again.repair is None or now.ratio >= worth.ratio:
        return None
    why = reason("moved-still", format=worth.format, moves=worth.moves, before=now.ratio)
    told = tuple(_told(one, step, why, again.repair.steps) for one in again.repair.steps)
    return searched((BYTES,), replace(again, repair=replace(again.repair, steps=told)))


def _levels(files: Sequence[Run]) -> list[Levels]:
    """How near each file is on samples that choose: its outputs, or their logits where all have some."""
    first = files[0]
    job, floats = first.built.job, (first.unrepaired or first).built.floats
    outputs = [info.name for info in floats.reference.graph.output]
    logits = logits_of(floats.reference)
    in_front = logits if {*outputs} <= {*logits} else {}
    counter = counted(first.task, outputs, in_front)
    dealt = AboutMeanGroups(job.parts_of(outputs), first.request.weights, GROUPS, len(files), counter)
    runs: list[Callable[[Feeds], list[Any]]]
    if in_front:
        names, folder = [LogitsName(name) for name in outputs], job.model.data_dir
        written = (job.part(one.built.written.proto)[0] for one in files)
        parts = [floats.reference, *map(job.runnable, written)]
        with loading():
            runs = [Tapped(part, names, folder).run for part in parts]
    else:
        exact = ort.load(floats.reference, data_dir=floats.model.data_dir)
        built = (one.built for one in files)
        runs = [exact.run, *(runner(job, one.written.proto, emulate=one.emulates).run for one in built)]
    sampling = first.sampling
    with sampling.named():
        for feeds in itertools.islice(sampling.feeds(sampling.proposing()), _SAMPLES):
            want, *found = (run(feeds) for run in runs)
            dealt.add(want, found, feeds)
    return Levels.of_each(dealt.groups)


def _told(one: RepairStep, undone: RepairStep, why: str, steps: Sequence[RepairStep]) -> RepairStep:
    """What is said of a step; of the one that was undone, or has less to change, why."""
    if one.step != undone.step:
        return one
    if one.verdict == "kept":
        return replace(one, why=f"{one.why}; {why}")
    return replace(
        undone, verdict="dropped", why=f"{undone.why}; {why}; {taking(undone.step, steps)} takes it"
    )


def _predicted(run: Run) -> float:
    """What the engine was said to move, as a share of what plain float16 moves."""
    built = run.built
    plain = engine_bytes(built.job.model, QuantPlan())
    return engine_bytes(built.floats.model, built.draft.plan) / max(1, plain)


def _worth(run: Run) -> Worth | None:
    return None if run.compiled is None else worth_of(run.compiled.verdict)


def _moves_more(run: Run) -> bool:
    worth = _worth(run)
    return worth is None or worth.is_more


def _dearest(run: Run) -> RepairStep | None:
    steps = () if run.repair is None else run.repair.steps
    kept = [step for step in steps if step.verdict == "kept" and step.more_bytes > 0]
    return max(kept, key=lambda step: step.more_bytes, default=None)


def _left_out(run: Run, why: Reason) -> Run:
    body = run.built.draft.body.noting(noted("no-bytes-undone", why=why))
    return replace(run, built=run.built.with_body(body))


BYTES = ModelSearch("bytes", _wanted, _undone, _left_out)
