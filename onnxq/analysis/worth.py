"""What int8 does to the engine, against plain float16: the facts and words of screen, page and notebook.

Bytes, kernels and types are facts of two compiled engines. Whether int8 is faster only a GPU tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.analysis.reports import OpenedReport, number, text

ONLY_A_GPU = "whether that is faster only a GPU tells"
ESTIMATE = "an estimate that does no better than a constant"
MERGED = "with what follows a product in its kernel, as NVIDIA documents it of TensorRT"
"""What holds of the merged form."""

HELPS_READING = (
    "what helps: a larger batch (--batch MIN:OPT:MAX); weights of 4 bits in blocks, which onnxq keeps where "
    "the model has them (MatMulNBits) and does not make; speculative decoding, which is the runtime's"
)
"""What makes a model faster that waits for its weights."""

_SAME = 0.005
"""So near to 1 a ratio of bytes is one of as many."""


@dataclass(frozen=True, slots=True)
class Worth:
    """An engine in int8 beside one in plain float16.

    Attributes:
        ratio: what int8 moves of the bytes of float16, weights included.
        moves: that in words.
        figures: how many kernels there are, how many of them only convert, and the types in which it
            multiplies, with their shares, in words.
    """

    ratio: float
    moves: str
    figures: str

    @property
    def is_more(self) -> bool:
        """Whether int8 moves more than float16."""
        return self.ratio > 1 + _SAME

    @property
    def said(self) -> str:
        """What int8 moves, and what that means where it is more."""
        return f"int8 moves {self.moves}" + ": it is not likely to help" * self.is_more


def worth_of(report: OpenedReport, form: str = "") -> Worth | None:
    """What a report's verdict says for certain, or None where two engines were not compared.

    Args:
        report: the report, or what has a verdict as one has.
        form: "merged" or "built"; the target's by default.
    """
    found = report.part("verdict", form or text(report.at("verdict", "form")))
    half, codes = (found.get(kind) for kind in ("fp16", "int8"))
    if not isinstance(half, Mapping) or not isinstance(codes, Mapping):
        return None
    before, after = _bytes(half), _bytes(codes)
    if not before or after is None:
        return None
    ratio = after / before
    return Worth(ratio, _moves(ratio), "; ".join(filter(None, [_kernels(half, codes), _types(codes)])))


def reading(deployment: Mapping[str, Any]) -> str:
    """That a deployment is bound by reading weights, in words; "" where it is not.

    Args:
        deployment: the part of a report on it, with `worth`.
    """
    usual = next(iter(deployment.get("worth") or ()), None)
    if not isinstance(usual, Mapping) or usual.get("reads_weights") is not True:
        return ""
    share = 100 * (number(usual.get("weights")) or 0.0)
    return (
        f"bound by reading weights: they are {share:.0f} % of what its products move, and most of the work "
        "is in layers of too few rows for int8"
    )


def _bytes(engine: Mapping[str, Any]) -> float | None:
    """What an engine moves in a run, weights included; None where that is not known."""
    moved = number(engine.get("moved_mb"))
    return None if moved is None else moved + (number(engine.get("weights_mb")) or 0.0)


def _moves(ratio: float) -> str:
    if ratio > 1 + _SAME:
        return f"{ratio:.2f} times the bytes of plain float16"
    return f"{ratio:.2f} of the bytes of plain float16" if ratio < 1 - _SAME else "the bytes of plain float16"


def _kernels(half: Mapping[str, Any], codes: Mapping[str, Any]) -> str:
    counts = [number(engine.get("kernels")) for engine in (codes, half)]
    if None in counts:
        return ""
    said = f"{counts[0]:.0f} kernel{'' if counts[0] == 1 else 's'} for {counts[1]:.0f}"
    convert = number(codes.get("conversions"))
    if convert:
        said += f", {convert:.0f} of them only convert{'s' if convert == 1 else ''}"
    return said


def _types(codes: Mapping[str, Any]) -> str:
    macs = codes.get("macs")
    found = {dtype: number(count) or 0 for dtype, count in macs.items()} if isinstance(macs, Mapping) else {}
    whole = sum(found.values())
    shares = ", ".join(
        f"{dtype} {100 * part / whole:.1f} %" for dtype, part in found.items() if part > whole / 2000
    )
    return f"multiplies {shares}" if shares else ""
