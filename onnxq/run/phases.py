"""Prefill and decode: the two deployments of a decoder's file.

A prefill takes a prompt: many new tokens, and none before them. Then each decode step takes one new token,
and all before it as the past. Who quantizes such a file runs both, and mostly has samples of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from onnxq.base.errors import UserError
from onnxq.graph.past import Lengths
from onnxq.run.deployment import Deployment, Dims, Shape, deployed
from onnxq.run.deployments import StatedDeployment, shares

Phase = Literal["prefill", "decode"]
PHASES: tuple[Phase, ...] = ("prefill", "decode")


def phases(
    inputs: Sequence[tuple[str, Dims | None]],
    stated: StatedDeployment,
    seen: Sequence[Mapping[str, Shape]],
    lengths: Lengths,
    *,
    weights: Mapping[str, float],
    batched: Collection[str] = (),
) -> tuple[Deployment, ...]:
    """The deployments of a decoder: prefill and decode, but what is told of first where the other is not.

    Where they tell of both, each has its own samples. Where they tell of one, the other is assumed: its
    lengths are those of the same texts. A prompt is as long as what a decode step knows with its token, and
    a decode step adds the last token of a prompt.

    Their shares of the work are equal, unless they are stated: a text is decoded in a step for each token of
    a prompt of the usual length, which is as many multiply-accumulates as the prefill of that prompt.

    Args:
        inputs: names and dimensions; None where the rank is unknown.
        stated: what is stated, without a name.
        seen: the shapes of each sample, as in `deployed`.
        lengths: what the dynamic dimensions count.
        weights: the shares that are stated, by phase.
        batched: the inputs whose first axis is the batch.

    Returns:
        Two; none where samples and stated sizes do not tell which phase they are of.

    Raises:
        UserError: what is stated makes no sense, or are shares of phases that nothing tells apart.
    """
    whole = deployed(inputs, stated.profiles, seen, batch=stated.batch, batched=batched, sums=lengths.sums)
    told = _told(whole, seen, lengths)
    if not told and weights and (seen or whole.is_stated):
        name = next(iter(weights))
        raise UserError(
            f"profile_weight {name}={weights[name]:g}: neither samples nor stated sizes tell prefill from "
            "decode",
            hint=f"state the sizes of both: --profile {name}/INPUT=MIN:OPT:MAX",
        )
    if not told:
        return ()
    stated_batch = [span for dim in whole.batch if (span := whole.spans[dim]).origin == "stated"]
    batch = next(((one.smallest, one.usual, one.largest) for one in stated_batch), None)

    def of(texts: Sequence[Mapping[str, Shape]]) -> Deployment:
        return deployed(inputs, {}, texts, batch=batch, batched=batched, sums=lengths.sums)

    each = {phase: replace(whole, fitting=numbers) for phase, numbers in told.items()}
    if len(told) > 1:
        each = {phase: _of_samples(of, seen, numbers) for phase, numbers in told.items()}
    else:
        (known,) = told
        other: Phase = "decode" if known == "prefill" else "prefill"
        usual = whole.usual  # twice: it is the median also where an end is left out
        texts = [whole.shapes("smallest"), usual, usual, whole.shapes("largest")]
        if not _is_stated(whole, lengths):
            texts = list(seen)
        turned = [shapes for text in texts if (shapes := _turned(whole, text, lengths, other))]
        if not turned:
            return ()
        each[other] = _assumed(of(turned))
    share = shares([weights.get(phase) for phase in each])
    return tuple(
        replace(one, name=phase, weight=weight, is_weight_assumed=phase not in weights)
        for (phase, one), weight in zip(each.items(), share, strict=True)
    )


def _of_samples(
    of: Callable[[Sequence[Mapping[str, Shape]]], Deployment],
    seen: Sequence[Mapping[str, Shape]],
    numbers: tuple[int, ...],
) -> Deployment:
    """The deployment of some of the samples."""
    found = of([seen[number] for number in numbers])
    nearest = None if found.nearest is None else numbers[found.nearest]
    return replace(found, fitting=numbers, nearest=nearest)


def _assumed(found: Deployment) -> Deployment:
    """A deployment of samples that there are not."""
    spans = {
        dim: replace(span, origin="assumed") if span.origin == "data" else span
        for dim, span in found.spans.items()
    }
    return replace(found, spans=spans, nearest=None, is_assumed=True)


def _told(
    whole: Deployment, seen: Sequence[Mapping[str, Shape]], lengths: Lengths
) -> dict[Phase, tuple[int, ...]]:
    """The phases that are told of, with the samples that each has; none where that is not known."""
    if lengths.others or not {*lengths.past, *lengths.new} <= {*whole.spans} or not lengths.new:
        return {}
    if _is_stated(whole, lengths):
        past, new = (whole.spans[dims[0]] for dims in (lengths.past, lengths.new))
        every = tuple(range(len(seen)))
        if "assumed" in (past.origin, new.origin):
            return {}
        if new.smallest == new.largest == 1 and past.usual > 0:
            return {"decode": every}
        return {"prefill": every} if past.largest == 0 and new.usual > 1 else {}
    found: dict[Phase, tuple[int, ...]] = {}
    longest = 0
    for number, shapes in enumerate(seen):
        known, fresh = (_size(whole, shapes, dims[0]) for dims in (lengths.past, lengths.new))
        longest = max(longest, known)
        if fresh > 1 and known > 0:  # a part of a prompt
            return {}
        phase: Phase = "decode" if fresh == 1 else "prefill"
        found[phase] = (*found.get(phase, ()), number)
    told = longest or "prefill" in found
    return {phase: found[phase] for phase in PHASES if phase in found} if told else {}


def _is_stated(whole: Deployment, lengths: Lengths) -> bool:
    """Whether a number of tokens is stated."""
    return not whole.stated.isdisjoint((*lengths.past, *lengths.new, *lengths.whole))


def _size(whole: Deployment, shapes: Mapping[str, Shape], dim: str) -> int:
    """The size of a dimension in a sample; 0 where it has none."""
    return whole.size(dim, shapes) or 0


def _turned(
    whole: Deployment, shapes: Mapping[str, Shape], lengths: Lengths, phase: Phase
) -> Mapping[str, Shape] | None:
    """The shapes of another phase for the same text; None where the text has one token."""
    tokens = sum(_size(whole, shapes, dims[0]) for dims in (lengths.past, lengths.new))
    if tokens < 2:
        return None
    new = 1 if phase == "decode" else tokens
    sizes = dict.fromkeys(lengths.past, tokens - new) | dict.fromkeys(lengths.new, new)
    sizes |= dict.fromkeys(lengths.whole, tokens)
    return {
        name: tuple(sizes.get(str(dim), now) for dim, now in zip(dims, shapes[name], strict=True))
        for name, dims in whole.names.items()
        if len(shapes.get(name, ())) == len(dims)
    }
