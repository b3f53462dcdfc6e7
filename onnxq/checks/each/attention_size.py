"""Attention with all of its pairs, and of a size without a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.checks.each._attention import Attention, attentions, pairs_in
from onnxq.checks.engine import without_attention

_HEADS = (16, 32, 64)


@check(
    "attention-size", needs="pairs",
    judge=without_attention,
)  # fmt: skip
def attention_sizes(subject: Subject) -> Iterator[Fact]:
    """All of its pairs, and a size for which there is no int8 kernel."""
    for attention in attentions(subject.model):
        too_large = _too_large(attention) if all(pairs_in(attention).values()) else None
        if too_large is not None:
            yield too_large


def _too_large(one: Attention) -> Fact | None:
    query, key = one.scores.operands(2)
    shape = query.shape if query is not None else None
    keys = key.shape if key is not None else None
    if not shape or not keys:
        return None
    about = (one.values.name, one.values.op, one.scores.outputs[0].name)
    length, count, size = shape[-2], keys[-1], shape[-1]
    if isinstance(size, int) and size not in _HEADS:
        return Fact("attention-size.channels", about, {"size": size})
    most = one.values.limit("int8-attention-keys") or 512
    for name, number in (("keys", count), ("queries", length)):
        limit = most if name == "keys" else one.values.limit("int8-attention-queries")
        if isinstance(number, int) and limit is not None and number > limit:
            return Fact("attention-size", about, {"number": number, "what": name, "limit": limit})
    return None
