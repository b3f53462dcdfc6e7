"""Two engines of one network side by side: what each lost, by ONNX node and in all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onnxq.base.plain import DocumentPart
from onnxq.compiled.kernels import BITS
from onnxq.compiled.reading import PAIRS, EngineReading, NodeInEngine


@dataclass(frozen=True, slots=True)
class NodeDifference(DocumentPart):
    """A node of two engines in which it is not the same, or takes another time.

    Attributes:
        node: its name in the models.
        op: its operator.
        one: the type in which the first engine runs it, None where that model or engine has no such node.
        other: the same of the second engine.
        kernels_one: how many kernels of the first engine list it.
        kernels_other: the same of the second.
        role_one: "own", "fused" or "folded" in the first engine; "absent": its model has no such node.
        role_other: the same of the second.
        macs: its multiply-accumulates, the larger of both.
        lost_by: "one" or "other": the engine that multiplies in a wider type, runs in more kernels, or takes
            longer; "" where neither is worse by that.
        why: what it lost: "type" (multiplies in a wider type), "kernels" (more of them), "fusion" (a kernel
            of its own, and fused in the other engine), "time" (nothing of these, and it takes longer by a
            fifth), or "" (it is only in one model, or differs otherwise).
        seconds_one: what its kernel takes in the first engine; None where nobody measured.
        seconds_other: the same of the second.
    """

    node: str
    op: str
    one: str | None
    other: str | None
    kernels_one: int
    kernels_other: int
    role_one: str
    role_other: str
    macs: int
    lost_by: str
    why: str
    seconds_one: float | None = None
    seconds_other: float | None = None


@dataclass(frozen=True, slots=True)
class FigureDifference(DocumentPart):
    """A figure of two engines.

    Attributes:
        figure: its name, of `EngineTotals`; "nanoseconds": what all kernels take together, as measured.
        one: of the first engine.
        other: of the second.
        less: the engine in which it is less, "one" or "other", "" where it is the same. (Of `int8_macs`,
            `fp8_macs` and products as planned, more is better; of the others less.)
    """

    figure: str
    one: int
    other: int
    less: str


@dataclass(frozen=True, slots=True)
class SideBySide(DocumentPart):
    """Two engines side by side.

    Attributes:
        figures: of each in all.
        nodes: those in which they differ: where both were timed, by the time that lies between them; else
            what multiplies in another type first, by multiply-accumulates.
        same: how many nodes are the same in both.
    """

    figures: tuple[FigureDifference, ...]
    nodes: tuple[NodeDifference, ...]
    same: int


_FIGURES = (
    "kernels", "int8_macs", "fp8_macs", "other_macs", "bytes_activations", "bytes_conversions",
    "bytes_weights", "conversions", "quantize", "dequantize", "cast", "reformat", "runtime_weights",
    "planned", "as_planned",
)  # fmt: skip
_REASONS = ("type", "fusion", "kernels", "time", "")

_SLOWER = 1.2
"""So many times what a node takes in the other engine is more than measuring varies by."""


def engine_difference(one: EngineReading, other: EngineReading) -> SideBySide:
    """Two engines side by side, by the names of ONNX nodes.

    Pairs of QuantizeLinear and DequantizeLinear are in the figures; of nodes only the others are compared.

    Args:
        one: an engine.
        other: that of another version of the same network.
    """
    firsts, seconds = _by_name(one), _by_name(other)
    names = dict.fromkeys((*firsts, *seconds))
    differences = [_difference(firsts.get(name), seconds.get(name)) for name in names]
    differing = [entry for entry in differences if entry is not None]
    differing.sort(key=lambda entry: (-_between(entry), _REASONS.index(entry.why), -entry.macs))
    return SideBySide(
        figures=(*_times(one, other), *(_figure(name, one, other) for name in _FIGURES)),
        nodes=tuple(differing),
        same=len(differences) - len(differing),
    )


def _times(one: EngineReading, other: EngineReading) -> Iterator[FigureDifference]:
    first, second = one.totals.seconds, other.totals.seconds
    if first is not None and second is not None:
        less = "" if first == second else "one" if first < second else "other"
        yield FigureDifference("nanoseconds", round(1e9 * first), round(1e9 * second), less)


def _between(entry: NodeDifference) -> float:
    """The seconds between both engines; 0 where one was not measured."""
    if entry.seconds_one is None or entry.seconds_other is None:
        return 0.0
    return abs(entry.seconds_one - entry.seconds_other)


def _by_name(reading: EngineReading) -> dict[str, NodeInEngine]:
    return {node.node: node for node in reading.nodes if node.op not in PAIRS}


def _figure(name: str, one: EngineReading, other: EngineReading) -> FigureDifference:
    first, second = int(getattr(one.totals, name)), int(getattr(other.totals, name))
    return FigureDifference(
        name, first, second, "" if first == second else "one" if first < second else "other"
    )


def _difference(one: NodeInEngine | None, other: NodeInEngine | None) -> NodeDifference | None:
    either = one or other
    assert either is not None  # its name is from one of both
    lost_by, why = ("", "") if one is None or other is None else _loss(one, other)
    if one is not None and other is not None and not why and one.role == other.role:
        return None
    return NodeDifference(
        node=either.node,
        op=either.op,
        one=one.compiled if one else None,
        other=other.compiled if other else None,
        kernels_one=one.kernels if one else 0,
        kernels_other=other.kernels if other else 0,
        role_one=one.role if one else "absent",
        role_other=other.role if other else "absent",
        macs=max(node.macs for node in (one, other) if node is not None),
        lost_by=lost_by,
        why=why,
        seconds_one=one.seconds if one else None,
        seconds_other=other.seconds if other else None,
    )


def _loss(one: NodeInEngine, other: NodeInEngine) -> tuple[str, str]:
    if one.macs and other.macs and one.compiled != other.compiled:
        first, second = (BITS.get(node.compiled or "", 0) for node in (one, other))
        return ("one" if first > second else "other" if second > first else ""), "type"
    if {one.role, other.role} == {"own", "fused"}:
        return ("one" if one.role == "own" else "other"), "fusion"
    if one.kernels != other.kernels:
        return ("one" if one.kernels > other.kernels else "other"), "kernels"
    if (
        one.seconds
        and other.seconds
        and max(one.seconds, other.seconds) > _SLOWER * min(one.seconds, other.seconds)
    ):
        return ("one" if one.seconds > other.seconds else "other"), "time"
    return "", ""
