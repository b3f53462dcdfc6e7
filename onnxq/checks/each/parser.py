"""What NVIDIA's parser and compiler reject."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from onnxq.checks import Said, check, stated
from onnxq.checks.answers import RuntimeAnswer
from onnxq.graph.types import shape_text
from onnxq.run.trt import Engine, node_of, plain

COMPILER = stated("compiler", needs="runtime", severity="error")
SIZES = stated(
    "unstated-sizes", needs="runtime",
    severity="note",
)  # fmt: skip
_OF_SIZES = re.compile(
    r"cannot be negative|must be (positive|conformable)|violates? shape|incompatible dimensions|"
    r"(exceed|larger than|out of).{0,40}dimension|cannot broadcast|volume",
    re.IGNORECASE,
)
"""Words by which the builder may mean the sizes, and not the model."""
_OF_TYPES = re.compile(r"\bhas (data ?)?type\b|unsupported data ?type", re.IGNORECASE)
"""Words by which it means types, which no size mends."""


@check("parser", needs="runtime", severity="error")
def parser(answer: RuntimeAnswer) -> Iterator[Said]:
    """What they say of the model, and what else of its repair."""
    if answer.engines is None:
        return
    before, after = answer.engines
    said = _said(before, answer, _advice(answer, before, after))
    if after is not before:
        advice = "leave rules out with --skip, and report this" if before.status == "compiled" else ""
        reasons = {_unnamed(one) for one in said}
        new = [one for one in _said(after, answer, advice) if _unnamed(one) not in reasons]
        said += [dataclasses.replace(one, reason=f"after sanitize, {one.reason}") for one in new]
    yield from (one for one in said if not _is_beyond(one, answer))


def _unnamed(said: Said) -> str:
    """What is said of a node, whether the file or the parser gave it its name."""
    return said.reason.replace("node_of_", "")


def _said(engine: Engine, answer: RuntimeAnswer, advice: str) -> list[Said]:
    """What is said of an engine that was not built."""
    if engine.status != "failed":
        return []
    if engine.errors:
        return [Said(one.node, one.op, f"NVIDIA's parser: {one.message}", advice) for one in engine.errors]
    node = node_of(engine.reason)
    at = (node, answer.nodes[node].op) if node in answer.nodes else ("", "")
    reason = plain(engine.reason)
    if answer.sizes_made_up and engine.profiles and _OF_SIZES.search(reason):
        sizes = ", ".join(
            f"{name} {shape_text(tuple(usual))}" for name, (_, usual, _) in engine.profiles.items()
        )
        told = f"at {sizes}, sizes that nobody stated, NVIDIA's compiler says: {reason}"
        return [Said(*at, told, advice or _STATE, check=SIZES)]
    return [Said(*at, f"NVIDIA's compiler: {reason}", advice, check=COMPILER)]


def _advice(answer: RuntimeAnswer, before: Engine, after: Engine) -> str:
    """What to do about the model, as it is."""
    if before.status != "failed":
        return ""
    if after.status == "compiled":
        return "repairable: onnxq sanitize repairs it"
    if before.errors or _OF_TYPES.search(before.reason):
        return ""
    if answer.deciding:
        return "; ".join(answer.deciding)
    if answer.sizes_made_up and before.profiles:
        return _STATE
    return ""


_STATE = "nobody said how large dynamic inputs are: it may compile with --profile INPUT=MIN:OPT:MAX"


def _is_beyond(said: Said, answer: RuntimeAnswer) -> bool:
    """Whether it is, or may be, about a node that only the compiler that is here does not take."""
    if said.node:
        return said.node in answer.beyond
    return said.op in answer.beyond.values() if said.op else bool(answer.beyond)
