"""Codes of a number format that the target, or the GPU, does not multiply in."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.base.shown import count
from onnxq.checks import AGAIN, Said, Subject, check
from onnxq.formats import FORMATS
from onnxq.targets import NAMES, load_target


@check(
    "number-format", needs="pairs", severity="error",
    parser="HW-specific datatypes",
)  # fmt: skip
def number_formats(subject: Subject) -> Iterator[Said]:
    """Pairs of a format, as fp8, that the target does not have, or the GPU that is compiled for."""
    model = subject.model
    for name in FORMATS:
        pairs = [one for one in subject.pairs if one.format is not None and one.format.name == name]
        least = model.limits.get(f"{name}-sm", 0)
        if not pairs or (name in model.formats and (subject.sm is None or subject.sm >= least)):
            continue
        where, instead = subject.target, "--target " + _having(name)
        if name in model.formats:
            where, instead = f"compute capability {(subject.sm or 0) / 10:.1f}", f"--sm {least}"
        yield Said(
            reason=f"its Q/DQ pairs ({count(len(pairs), 'node')}) are {name}, and {where} multiplies nothing "
            f"in {name}",
            advice=f"check it for what has {name} ({instead}), or quantize to int8: {AGAIN} --format int8",
            consequence="no engine is built of it",
        )


def _having(name: str) -> str:
    return [one for one in NAMES if name in load_target(one).formats][-1]
