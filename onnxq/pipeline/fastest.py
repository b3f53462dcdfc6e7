"""Layers that int8 makes slower by estimate, left in float: kept where the whole is better with them.

The estimate does no better than a constant on published latencies (docs/verdict.md): only a GPU tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from onnxq.base.reason import Reason
from onnxq.base.shown import count
from onnxq.compiled.verdict import ComparedLayers, Fastest, Verdict
from onnxq.pipeline.building import Built
from onnxq.run import trt

_ENGINES = 6
"""How many engines are compiled at most."""

_GAIN = 1.002
"""How many times as fast a model has to be said to be for a trial to be kept."""

SLOWER = "by a rough estimate int8 is slower on every GPU, whatever is left in float: nothing is quantized"


@dataclass(frozen=True, slots=True)
class SpeedTrial:
    """A quantized model with some layers in float.

    Attributes:
        built: it, as it is written.
        engine: what came of compiling it.
        verdict: what int8 does to the engine.
    """

    built: Built
    engine: trt.Engine
    verdict: Verdict

    @property
    def ratio(self) -> float:
        """How many times as fast as float16 it is said to be."""
        found = self.verdict.compared
        return found.ratio if found is not None else 1.0


Judge = Callable[[trt.Engine, Built], Verdict]


def fastest(first: SpeedTrial, compiled: Callable[[Built], trt.Engine], judge: Judge) -> SpeedTrial:
    """The model without int8 where int8 loses.

    What one layer in float costs the layers around it is not predicted: each trial is compiled.

    Args:
        first: the model as it was planned.
        compiled: compiles one.
        judge: compares an engine with float16.

    Returns:
        The best of what was tried; its verdict says what was left in float. `first` where that was best.
    """
    if first.verdict.compared is None:
        return first
    best, engines = first, 0

    def tried(why: Mapping[str, str], of: SpeedTrial) -> SpeedTrial | None:
        nonlocal engines
        built = of.built.in_float(why).finished()
        engines += 1
        engine = compiled(built)
        if engine.status != "compiled" or engine.unread:
            return None
        return SpeedTrial(built, engine, judge(engine, built))

    losing = _losing(best.verdict)
    while losing and engines < _ENGINES:
        why = {name: _because(one, best.verdict) for one in losing for name in one.layers}
        again = tried(why, best)
        if again is not None and again.verdict.compared is not None and again.ratio > best.ratio * _GAIN:
            best = again
            losing = _losing(best.verdict)
        else:  # those that lose most
            losing = losing[: len(losing) // 2]
    compared = best.verdict.compared
    if compared is not None and compared.high < 1:  # on no GPU is any of it worth it
        why = {name: Reason("fastest", SLOWER) for name in best.built.draft.plan.planned}
        again = tried(why, best)
        if again is not None:
            best = replace(again, verdict=Verdict(SLOWER, first.verdict.form))
    return replace(best, verdict=replace(best.verdict, fastest=_said(first, best, engines)))


def _losing(verdict: Verdict) -> list[ComparedLayers]:
    """Those that int8 makes slower, the ones that lose most first."""
    return [one for one in verdict.layers if one.ratio < 1]


def _because(layers: ComparedLayers, verdict: Verdict) -> Reason:
    gpus = len(verdict.compared.gpus) if verdict.compared is not None else 0
    text = (
        f"by a rough estimate int8 makes it slower: {layers.ratio:.2f} times as fast as float16 with its "
        f"conversions, {layers.low:.2f} to {layers.high:.2f} over {count(gpus, 'GPU')}"
    )
    return Reason("fastest", text)


def _said(first: SpeedTrial, best: SpeedTrial, engines: int) -> Fastest:
    was, now = first.built.draft.plan, best.built.draft.plan
    still = set(now.planned)
    layers = tuple(name for name in was.planned if name not in still)
    return Fastest(layers, first.ratio, best.ratio, was.int8_share, now.int8_share, engines)
