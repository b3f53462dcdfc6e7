"""Steps of repair with which the compiled engine moves more bytes than plain float16: they are undone.

What a step costs is predicted from shapes before it is kept. Where the engine says otherwise, repair is made
once more with less room for it, then with none; all that was fitted beside it is fitted anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from onnxq.advice.worth import Worth, worth_of
from onnxq.base.reason import Reason
from onnxq.pipeline.search import ModelSearch, searched
from onnxq.pipeline.searches.body import BODY
from onnxq.pipeline.searches.compile import COMPILE
from onnxq.pipeline.searches.repair import REPAIR
from onnxq.pipeline.state import RunRequest, RunState
from onnxq.quant.plan import QuantPlan
from onnxq.repair.engine_bytes import engine_bytes
from onnxq.repair.ledger import RepairStep, taking


def _wanted(request: RunRequest, state: RunState) -> bool:
    worth = _worth(state)
    if worth is None or not worth.is_more or not request.bounds_bytes:
        return False
    return state.unrepaired is not None and _dearest(state) is not None


def _undone(request: RunRequest, state: RunState) -> RunState:
    """Repaired once more, with less room by what the engine moves more than predicted; then with none."""
    before, step, worth = state.unrepaired, _dearest(state), _worth(state)
    assert before is not None
    assert step is not None
    assert worth is not None
    over = math.inf if request.bytes_over else worth.ratio - _predicted(state)
    request = replace(request, bytes_over=over)
    before = replace(before, heads=state.heads, formats=state.formats, alone=state.alone)
    again = searched((REPAIR, BODY, COMPILE), request, before)
    now = _worth(again)
    if now is None or again.repair is None or now.ratio >= worth.ratio:
        return state
    why = f"with all that it would change {worth.format} moves {worth.moves}, {now.ratio:.2f} without"
    told = tuple(_told(one, step, why, again.repair.steps) for one in again.repair.steps)
    return searched((BYTES,), request, replace(again, repair=replace(again.repair, steps=told)))


def _told(one: RepairStep, undone: RepairStep, why: str, steps: Sequence[RepairStep]) -> RepairStep:
    """What is said of a step; of the one that was undone, or has less to change, why."""
    if one.step != undone.step:
        return one
    if one.verdict == "kept":
        return replace(one, why=f"{one.why}; {why}")
    return replace(
        undone, verdict="dropped", why=f"{undone.why}; {why}; {taking(undone.step, steps)} takes it"
    )


def _predicted(state: RunState) -> float:
    """What the engine was said to move, as a share of what plain float16 moves."""
    built = state.built
    plain = engine_bytes(built.job.model, QuantPlan())
    return engine_bytes(built.floats.model, built.draft.plan) / max(1, plain)


def _worth(state: RunState) -> Worth | None:
    return None if state.compiled is None else worth_of(state.compiled.verdict)


def _dearest(state: RunState) -> RepairStep | None:
    steps = () if state.repair is None else state.repair.steps
    kept = [step for step in steps if step.verdict == "kept" and step.more_bytes > 0]
    return max(kept, key=lambda step: step.more_bytes, default=None)


def _left_out(request: RunRequest, state: RunState, why: Reason) -> RunState:
    body = state.built.draft.body.noting(f"no step of repair was undone for its bytes: {why}")
    return replace(state, built=state.built.with_body(body))


BYTES = ModelSearch("bytes", _wanted, _undone, _left_out)
