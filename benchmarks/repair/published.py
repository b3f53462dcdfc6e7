"""Whether float models are right as often as is published of them, so that they are fed as they should be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.repair.nets import Net
from benchmarks.repair.printing import claim
from onnxq.run import ort

APART = 0.05  # points of top-1: what was published is rounded


def printed(nets: Sequence[Net]) -> None:
    """Those of which it is known, once each."""
    for net in {net.name: net for net in nets if net.published is not None}.values():
        known, model = net.published, net.model(0)
        assert known is not None
        assert isinstance(model, Path)
        session = ort.load(model)
        right = sum(int(session.run(feeds)[0].argmax() == place) for place, feeds in enumerate(known.samples))
        top1 = 100 * right / len(known.samples)
        what = f"{net.name}: float top-1 of {len(known.samples)} images is {known.top1:g} %"
        claim(what, abs(top1 - known.top1) <= APART, f"{top1:.1f} %")
