"""Codes of a number format that the target, or the GPU, does not multiply in."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.base.shown import count
from onnxq.checks import Fact, Subject, check
from onnxq.formats import FORMATS
from onnxq.targets import NAMES, load_target
from onnxq.targets.devices import first_with


@check(
    "number-format", needs="pairs", severity="error",
    parser="HW-specific datatypes",
)  # fmt: skip
def number_formats(subject: Subject) -> Iterator[Fact]:
    """Pairs of a format, as fp8, that the target does not have, or the GPU that is compiled for."""
    model = subject.model
    for name in FORMATS:
        pairs = [one for one in subject.pairs if one.format is not None and one.format.name == name]
        least = first_with(name)
        if not pairs or (name in model.formats and (subject.sm is None or subject.sm >= least)):
            continue
        on_gpu = name in model.formats
        yield Fact(
            "number-format.of-gpu" if on_gpu else "number-format",
            values={
                "nodes": count(len(pairs), "node"), "format": name, "least": least,
                "sm": (subject.sm or 0) / 10, "target": subject.target,
                "other": "" if on_gpu else _having(name),
            },
        )  # fmt: skip


def _having(name: str) -> str:
    return [one for one in NAMES if name in load_target(one).formats][-1]
