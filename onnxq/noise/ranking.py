"""Decisions, ranked by what they gain."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.judge.sqnr import BEST_DB, limited_db
from onnxq.noise.decisions import Costs, FloatDecision
from onnxq.noise.gram import NoiseModel

_NAMED = 3  # sources that a reason names
_MORE = 1.1  # times what the best of its nodes gains: what gains less is that node's merit


@dataclass(frozen=True, slots=True)
class DecisionRanked(DocumentPart):
    """Something that can be left in float, and what it is worth.

    Attributes:
        nodes: names of the nodes; their partners go along.
        removes: the tensor whose Q/DQ pair goes with it; None where a layer is meant.
        gain_db: by how much the outputs' signal-to-noise ratio rises, predicted, dB.
        measured_gain_db: the same, measured; None where it was not.
        alone_db: the ratio with only those sources of noise on that it removes, dB.
        cost: of it and those that go along, in the unit of the ranking.
        share_of_int8_macs: which share of the int8 multiply-accumulates it takes to float, 0 to 1.
        sources: names of what it removes, the loudest first.
        why: in words.
        score: what the user's function gives with it in float; None where there is none.
        score_alone: the same with it alone quantized, and all else in float.
        op: the operator of the first of the nodes; "" where that is not known.
    """

    nodes: tuple[str, ...]
    removes: str | None
    gain_db: float
    measured_gain_db: float | None
    alone_db: float
    cost: float
    share_of_int8_macs: float
    sources: tuple[str, ...]
    why: str
    score: float | None = None
    score_alone: float | None = None
    op: str = ""


def ranked(
    model: NoiseModel, decisions: Sequence[FloatDecision], costs: Costs, floats: Collection[str] = ()
) -> list[DecisionRanked]:
    """Decisions by what they gain beside what is float already; the greatest gain first.

    Of equal gains the cheaper is first, then the one of fewer nodes. One of several nodes that adds less than
    a tenth to what the best of them gains by itself comes behind that: it is no other cause.
    """
    sets = [[*floats, *decision.nodes] for decision in decisions]
    before = model.sources.on(floats)
    after = model.sources.on_each(sets)
    now = model.sqnr_db(floats)
    removed = before & ~after
    alone = model.noises(removed)
    body, apart = model.body_noise, model.alone_db()
    levels = [limited_db(noise + body) for noise in model.noises(after)]
    rows = [
        DecisionRanked(
            decision.nodes, decision.removes or None, levels[row] - now, None, limited_db(alone[row]),
            costs.cost(decision.nodes), costs.share(decision.nodes), _names(model, removed[row]),
            _why(model, decision, before, removed[row], apart),
        )
        for row, decision in enumerate(decisions)
    ]  # fmt: skip
    by_itself = {one.nodes: one.gain_db for one in rows}

    def place(one: DecisionRanked) -> tuple[float, bool, float, int]:
        nodes = one.nodes
        best = max((by_itself.get((node,), 0.0) for node in nodes), default=0.0) if len(nodes) > 1 else 0.0
        behind = best > 0 and one.gain_db < _MORE * best
        return -round(best if behind else one.gain_db, 6), behind, one.cost, len(nodes)

    return sorted(rows, key=place)


def _names(model: NoiseModel, removed: np.ndarray) -> tuple[str, ...]:
    power = np.diag(model.gram)
    places = sorted(np.flatnonzero(removed).tolist(), key=lambda place: -power[place])
    return tuple(dict.fromkeys(model.sources.entries[place].name for place in places))


def _why(
    model: NoiseModel, decision: FloatDecision, before: np.ndarray, removed: np.ndarray, levels: np.ndarray
) -> str:
    """What it removes, and which part of the noise that is; `levels`: of each source alone, dB."""
    part = model.share(removed, before)
    names = []
    heard = removed & (levels < BEST_DB)
    for place in sorted(np.flatnonzero(heard).tolist(), key=lambda place: levels[place])[:_NAMED]:
        source = model.sources.entries[place]
        kind = {"weight": "weights ", "block": "all from "}.get(source.kind, "")
        names.append(f"{kind}{source.name!r} ({levels[place]:.1f} dB alone)")
    gone = ", ".join(names) or "nothing"
    return noted(
        "noise-gone.purpose" if decision.removes else "noise-gone",
        tensor=decision.removes, share=part, names=gone,
    )  # fmt: skip
