"""Attention with all of its pairs, and of a size without a kernel."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import AGAIN, Said, Subject, check
from onnxq.checks.each._attention import UNFUSED, Attention, attentions, pairs_in
from onnxq.checks.engine import without_attention

_HEADS = (16, 32, 64)


@check(
    "attention-size", needs="pairs",
    judge=without_attention,
)  # fmt: skip
def attention_sizes(subject: Subject) -> Iterator[Said]:
    """All of its pairs, and a size for which there is no int8 kernel."""
    for attention in attentions(subject.model):
        why = _too_large(attention) if all(pairs_in(attention).values()) else ""
        if why:
            yield Said(
                attention.values.name, attention.values.op, f"its attention is in int8 and has {why}",
                f"leave attention of this size in float: {AGAIN} does",
                tensor=attention.scores.outputs[0].name,
                consequence=UNFUSED,
            )  # fmt: skip


def _too_large(one: Attention) -> str:
    query, key = one.scores.operands(2)
    shape = query.shape if query is not None else None
    keys = key.shape if key is not None else None
    if not shape or not keys:
        return ""
    length, count, size = shape[-2], keys[-1], shape[-1]
    if isinstance(size, int) and size not in _HEADS:
        return f"{size} channels a head: int8 kernels have 16, 32 or 64"
    most = one.values.limit("int8-attention-keys") or 512
    for name, number in (("keys", count), ("queries", length)):
        limit = most if name == "keys" else one.values.limit("int8-attention-queries")
        if isinstance(number, int) and limit is not None and number > limit:
            return f"{number:,} {name}: int8 kernels take up to {limit:,}"
    return ""
