"""What NVIDIA's parser and compiler reject."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnxq.checks import Fact, check, stated
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
def parser(answer: RuntimeAnswer) -> Iterator[Fact]:
    """What they say of the model, and what else of its repair."""
    if answer.engines is None:
        return
    before, after = answer.engines
    found = _found(before, answer, _to_do(answer, before, after))
    if after is not before:
        known = {_unnamed(one) for one in found}
        new = _found(after, answer, ".after.skip" if before.status == "compiled" else ".after")
        found += [one for one in new if _unnamed(one) not in known]
    yield from (one for one in found if not _is_beyond(one, answer))


def _unnamed(one: Fact) -> tuple[str, ...]:
    """What is said of a node, whether the file or the parser gave it its name."""
    return one.row, *(str(value).replace("node_of_", "") for value in one.values.values())


def _found(engine: Engine, answer: RuntimeAnswer, form: str) -> list[Fact]:
    """What is said of an engine that was not built."""
    if engine.status != "failed":
        return []
    if engine.errors:
        return [Fact(f"parser{form}", (one.node, one.op), {"message": one.message}) for one in engine.errors]
    node = node_of(engine.reason)
    at = (node, answer.nodes[node].op) if node in answer.nodes else ("", "")
    sizes = [f"{name} {shape_text(tuple(usual))}" for name, (_, usual, _) in engine.profiles.items()]
    message = plain(engine.reason)
    values = {"message": message, "deciding": "; ".join(answer.deciding)}
    made_up = answer.sizes_made_up and sizes
    if made_up and _OF_SIZES.search(message):
        return [Fact(f"unstated-sizes{form}", at, {**values, "sizes": ", ".join(sizes)})]
    if made_up and not form and not _OF_TYPES.search(engine.reason):
        form = ".unstated"
    return [Fact(f"compiler{form}", at, values)]


def _to_do(answer: RuntimeAnswer, before: Engine, after: Engine) -> str:
    """The form that says what to do about the model, as it is."""
    if after.status == "compiled":
        return ".repairable"
    if before.errors or not answer.deciding or _OF_TYPES.search(before.reason):
        return ""
    return ".deciding"


def _is_beyond(one: Fact, answer: RuntimeAnswer) -> bool:
    """Whether it is, or may be, about a node that only the compiler that is here does not take."""
    node, op = one.about
    if node:
        return node in answer.beyond
    return op in answer.beyond.values() if op else bool(answer.beyond)
