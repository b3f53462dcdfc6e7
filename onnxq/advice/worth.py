"""What int8 does to the engine, against plain float16: the facts and words of screen, page and notebook.

Bytes, kernels and types are facts of two compiled engines. Whether int8 is faster only a GPU tells.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.analysis.reports import number
from onnxq.base.reason import say
from onnxq.compiled.verdict import Compared, EngineFigures, Verdict
from onnxq.documents.deployment import DeploymentPart, NamedDeployment

_SAME = 0.005
"""So near to 1 a ratio of bytes is one of as many."""


@dataclass(frozen=True, slots=True)
class Worth:
    """A quantized engine beside one in plain float16.

    Attributes:
        format: the number format of the quantized one.
        ratio: what it moves of the bytes of float16, weights included.
        moves: that in words.
        figures: how many kernels there are, how many of them only convert, and the types in which it
            multiplies, with their shares, in words.
    """

    format: str
    ratio: float
    moves: str
    figures: str

    @property
    def is_more(self) -> bool:
        """Whether it moves more than float16."""
        return self.ratio > 1 + _SAME

    @property
    def said(self) -> str:
        """What it moves, and what that means where it is more."""
        code = "worth.no-help" if self.is_more else "worth.more"
        return say(code, format=self.format, moves=self.moves)

    @property
    def line(self) -> str:
        """The same with its figures."""
        return "; ".join(filter(None, (self.said, self.figures)))


def worth_of(verdict: Verdict | None, form: str = "") -> Worth | None:
    """What a report's verdict says for certain, or None where two engines were not compared.

    Args:
        verdict: the verdict.
        form: "merged" or "built"; the target's by default.
    """
    both = compared(verdict, form)
    if verdict is None or both is None:
        return None
    before, after = _bytes(both.fp16), _bytes(both.int8)
    if not before or after is None:
        return None
    ratio = after / before
    said = filter(None, [_kernels(both.fp16, both.int8), _types(both.int8)])
    return Worth(verdict.format, ratio, _moves(ratio), "; ".join(said))


def reading(deployment: DeploymentPart | NamedDeployment) -> str:
    """That a deployment is bound by reading weights, in words; "" where it is not."""
    usual = next(iter(deployment.worth or ()), None)
    if usual is None or not usual.reads_weights:
        return ""
    return say("worth.reading", percent=100 * (usual.weights or 0.0))


def compared(verdict: Verdict | None, form: str = "") -> Compared | None:
    """The two engines of a verdict in a form; None where there is none of that form.

    Args:
        verdict: the verdict.
        form: "merged" or "built"; the target's by default.
    """
    if verdict is None:
        return None
    return {"merged": verdict.merged, "built": verdict.built}.get(form or verdict.form)


def _bytes(engine: EngineFigures) -> float | None:
    """What an engine moves in a run, weights included, 1e6 bytes; None where that is not known."""
    moved = number(engine.moved_mb)
    return None if moved is None else moved + (number(engine.weights_mb) or 0.0)


def _moves(ratio: float) -> str:
    return say("worth.equal" if abs(ratio - 1) <= _SAME else "worth.times", ratio=ratio)


def _kernels(half: EngineFigures, codes: EngineFigures) -> str:
    counts = [number(engine.kernels) for engine in (codes, half)]
    if None in counts:
        return ""
    said = f"{counts[0]:.0f} kernel{'' if counts[0] == 1 else 's'} for {counts[1]:.0f}"
    convert = number(codes.conversions)
    if convert:
        return say("worth.convert" if convert == 1 else "worth.converts", said=said, count=convert)
    return said


def _types(codes: EngineFigures) -> str:
    whole = sum(codes.macs.values())
    shares = ", ".join(
        f"{dtype} {100 * part / whole:.1f} %" for dtype, part in codes.macs.items() if part > whole / 2000
    )
    return f"multiplies {shares}" if shares else ""
