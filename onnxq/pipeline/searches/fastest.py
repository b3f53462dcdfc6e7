"""Layers that quantization makes slower by estimate, left in float: kept where the whole is better with them.

The estimate does no better than a constant on published latencies (docs/verdict.md): only a GPU tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onnxq.base.reason import Reason, noted, reason
from onnxq.base.shown import count
from onnxq.compiled.verdict import ComparedLayers, Fastest, Verdict
from onnxq.pipeline.compiler import Compiled
from onnxq.pipeline.search import ModelSearch
from onnxq.pipeline.searches.body import decided_again
from onnxq.pipeline.state import RunRequest, RunState

_ENGINES = 6
"""How many engines are compiled at most."""

_GAIN = 1.002
"""How many times as fast a model has to be said to be for a trial to be kept."""

_SLOWER = "by a rough estimate {} is slower on every GPU, whatever is left in float: nothing is quantized"


def _fastest(request: RunRequest, state: RunState) -> RunState:
    """The model in float where quantization loses.

    What one layer in float costs the layers around it is not predicted: each trial is compiled.

    Returns:
        The best of what was tried; its verdict says what was left in float. The state as it was where that
        was best.
    """
    first, limit = _of(state), state.built.job.limit
    engines = first.engines
    if first.verdict.compared is None or engines is None:
        return state
    best, trials = state, 0

    def tried(why: Mapping[str, str], of: RunState) -> RunState | None:
        nonlocal trials
        built = decided_again(of.built.in_float(why), of.stats, request.sampling)
        trials += 1
        engine = engines.compiler.compile(built.written.proto)
        if engine.status != "compiled" or engine.unread:
            return None
        compiled = replace(_of(of), engine=engine, verdict=engines.judged(engine, built))
        return replace(of.of(built), compiled=compiled)

    with state.built.job.step("compile"):
        losing = _losing(first.verdict)
        while losing and trials < _ENGINES and not limit.is_over:
            verdict = _of(best).verdict
            why = {name: _because(one, verdict) for one in losing for name in one.layers}
            again = tried(why, best)
            if again is not None and _is_faster(_of(again), _of(best)):
                best = again
                losing = _losing(_of(best).verdict)
            else:  # those that lose most
                losing = losing[: len(losing) // 2]
        compared = _of(best).verdict.compared
        if compared is not None and compared.high < 1:  # on no GPU is any of it worth it
            slower = _SLOWER.format(first.verdict.format)
            why = {name: Reason("fastest", slower) for name in best.built.draft.plan.planned}
            again = tried(why, best)
            if again is not None:
                best = _saying(again, Verdict(slower, first.verdict.form, format=first.verdict.format))
    return _saying(best, replace(_of(best).verdict, fastest=_said(state, best, trials)))


def _of(state: RunState) -> Compiled:
    assert state.compiled is not None
    return state.compiled


def _saying(state: RunState, verdict: Verdict) -> RunState:
    """A state with another verdict on its engine."""
    return replace(state, compiled=replace(_of(state), verdict=verdict))


def _is_faster(again: Compiled, best: Compiled) -> bool:
    return again.verdict.compared is not None and again.ratio > best.ratio * _GAIN


def _wanted(request: RunRequest, state: RunState) -> bool:
    engine = None if state.compiled is None else state.compiled.engine
    return request.compilation.fastest and engine is not None and engine.status != "failed"


def _left_out(request: RunRequest, state: RunState, why: Reason) -> RunState:
    body = state.built.draft.body.noting(noted("none-for-speed", why=why))
    return replace(state, built=state.built.with_body(body))


def _losing(verdict: Verdict) -> list[ComparedLayers]:
    """Those that quantization makes slower, the ones that lose most first."""
    return [one for one in verdict.layers if one.ratio < 1]


def _because(layers: ComparedLayers, verdict: Verdict) -> Reason:
    gpus = len(verdict.compared.gpus) if verdict.compared is not None else 0
    return reason(
        "fastest", format=verdict.format, ratio=layers.ratio, low=layers.low, high=layers.high,
        gpus=count(gpus, "GPU"),
    )  # fmt: skip


def _said(first: RunState, best: RunState, engines: int) -> Fastest:
    was, now = first.built.draft.plan, best.built.draft.plan
    still = set(now.planned)
    layers = tuple(name for name in was.planned if name not in still)
    return Fastest(layers, _of(first).ratio, _of(best).ratio, was.int8_share, now.int8_share, engines)


FASTEST = ModelSearch("fastest", _wanted, _fastest, _left_out)
