"""Steps of repair with which the compiled engine moves more bytes than plain float16: they are undone.

What a step costs is predicted from shapes before it is kept. Where the engine says otherwise, repair is made
once more without it; all that was fitted beside it is fitted anew.
"""

from __future__ import annotations

from dataclasses import replace

from onnxq.advice.worth import Worth, worth_of
from onnxq.base.reason import Reason
from onnxq.options.settings import STEPS
from onnxq.pipeline.search import ModelSearch, searched
from onnxq.pipeline.searches.body import BODY
from onnxq.pipeline.searches.compile import COMPILE
from onnxq.pipeline.searches.repair import REPAIR
from onnxq.pipeline.state import RunRequest, RunState
from onnxq.repair.ledger import RepairStep, taking


def _wanted(request: RunRequest, state: RunState) -> bool:
    worth = _worth(state)
    if worth is None or not worth.is_more or not request.bounds_bytes:
        return False
    return state.unrepaired is not None and _dearest(state) is not None


def _undone(request: RunRequest, state: RunState) -> RunState:
    """Without the step that is said to cost most; of others, too, as long as that is not enough."""
    before, step, worth = state.unrepaired, _dearest(state), _worth(state)
    assert before is not None
    assert step is not None
    assert worth is not None
    request = replace(request, undone=request.undone | {step.step})
    again = searched((REPAIR, BODY, COMPILE), request, replace(before, heads=state.heads))
    now = _worth(again)
    if now is None or again.repair is None or now.ratio >= worth.ratio:
        return state
    flag = taking(step.step, again.repair.steps)
    why = f"{step.why}, and {worth.said}, {now.ratio:.2f} without; {flag} takes it"
    told = replace(step, verdict="dropped", why=why)
    steps = sorted((*again.repair.steps, told), key=lambda one: STEPS.index(one.step))
    return searched((BYTES,), request, replace(again, repair=replace(again.repair, steps=tuple(steps))))


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
