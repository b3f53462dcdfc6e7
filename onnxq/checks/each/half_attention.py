"""Attention with some of its pairs."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._attention import OUTPUT, attentions, pairs_in
from onnxq.checks.engine import without_attention


@check("half-attention", needs="pairs", judge=without_attention)
def half_attention(subject: Subject) -> Iterator[Fact]:
    """Some of the pairs of attention."""
    for part in attentions(subject.model):
        have = pairs_in(part)
        operands = [is_there for name, is_there in have.items() if name != OUTPUT]
        if not any(operands) or (all(have.values()) and not part.raw):
            continue  # a pair on the output alone is that of the layer behind it
        missing = [name for name, is_there in have.items() if not is_there]
        yield Fact(
            "half-attention" if missing else "half-attention.scored",
            (part.values.name, part.values.op, part.scores.outputs[0].name),
            {"have": ", ".join(n for n, is_there in have.items() if is_there), "missing": ", ".join(missing)},
        )  # fmt: skip
