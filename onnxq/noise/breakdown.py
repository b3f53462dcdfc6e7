"""Who makes the outputs' noise, by the noise model: each source, each layer, weights and activations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxq.base.plain import DocumentPart
from onnxq.judge.sqnr import limited_db
from onnxq.noise.gram import NoiseModel


@dataclass(frozen=True, slots=True)
class NoiseShare(DocumentPart):
    """What makes noise; nothing is in float for it.

    Attributes:
        name: the first tensor of a source; the node of a layer; `weight` or `activation` of a kind.
        kind: `activation` or `weight`, `block` for all of consecutive layers; "" of a layer or a kind.
        layers: the nodes that read what it quantizes, the first eight.
        alone_db: what it alone leaves of the outputs, SQNR about the mean, dB; 200 where it makes none.
        share: what the noise falls by without it, in parts of all of int8's; below 0 where it rises.
    """

    name: str
    kind: str
    layers: tuple[str, ...]
    alone_db: float
    share: float


@dataclass(frozen=True, slots=True)
class NoiseBreakdown(DocumentPart):
    """The noise of int8, in parts.

    Attributes:
        kinds: all weights, and all activations; none where sources are blocks.
        sources: each source, what makes most first.
        layers: each layer: all that it reads, in the order of what they read.
    """

    kinds: tuple[NoiseShare, ...]
    sources: tuple[NoiseShare, ...]
    layers: tuple[NoiseShare, ...]


_READERS = 8


def breakdown(model: NoiseModel) -> NoiseBreakdown:
    """The noise of a model in parts."""
    entries = model.sources.entries
    if not entries:
        return NoiseBreakdown((), (), ())
    readers = [tuple(sorted({edge.node for edge in entry.edges})) for entry in entries]
    nodes = tuple(dict.fromkeys(node for several in readers for node in several))
    kinds = () if any(entry.kind == "block" for entry in entries) else ("weight", "activation")
    rows = [[entry.kind == kind for entry in entries] for kind in kinds]
    rows += [[place == at for at in range(len(entries))] for place in range(len(entries))]
    rows += [[node in several for several in readers] for node in nodes]
    on = np.array(rows, bool).reshape(len(rows), len(entries))
    first = len(rows) - len(nodes)
    alone = np.concatenate([model.noises(on[:first]), model.noises(model.sources.closed(on[first:]))])
    everything = float(model.noises(np.ones((1, len(entries)), bool))[0])
    shares = (everything - model.noises(~on)) / max(everything, 1e-300)
    told: list[tuple[str, str, tuple[str, ...]]] = [
        *((kind, "", ()) for kind in kinds),
        *((e.name, e.kind, read[:_READERS]) for e, read in zip(entries, readers, strict=True)),
        *((node, "", (node,)) for node in nodes),
    ]
    noise_shares = [
        NoiseShare(name, kind, layers, limited_db(float(noise)), float(share))
        for (name, kind, layers), noise, share in zip(told, alone, shares, strict=True)
    ]
    sources = sorted(noise_shares[len(kinds) : first], key=lambda one: -one.share)
    return NoiseBreakdown(tuple(noise_shares[: len(kinds)]), tuple(sources), tuple(noise_shares[first:]))
