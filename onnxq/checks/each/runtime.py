"""Models that onnxruntime does not take."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, check
from onnxq.checks.answers import RuntimeAnswer
from onnxq.checks.api import AT_NODE


@check(
    "runtime", needs="runtime",
    command=AT_NODE,
)  # fmt: skip
def runtime(answer: RuntimeAnswer) -> Iterator[Fact]:
    """That it does not, and whether it takes the repair."""
    if answer.taken.original is None:
        return
    mended = answer.taken.result is None
    yield Fact("runtime.mended" if mended else "runtime", values={"message": answer.taken.original})
