"""Few channels that have the whole range of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Evidence, Fact, check
from onnxq.checks.limits import CHANNELS, OUTLIER, OUTLIERS


@check("outlier-channel", needs="data", is_cause=True)
def outlier_channels(evidence: Evidence) -> Iterator[Fact]:
    """Tensors whose scale is spent on few channels."""
    for name, threshold, stats in evidence.quantized:
        if stats.channels is None or len(stats.channels.amax) < CHANNELS:
            continue
        amax = stats.channels.amax
        order = np.argsort(amax)[::-1]
        most = max(1, int(len(amax) * OUTLIERS))
        ratios = amax[order[:most]] / np.maximum(amax[order[1 : most + 1]], np.finfo(np.float32).tiny)
        count = int(np.argmax(ratios)) + 1
        rest = float(amax[order[count]])
        if not rest or float(amax[order[count - 1]]) < OUTLIER * rest or threshold < OUTLIER / 2 * rest:
            continue
        (node, op), codes = evidence.reader(name), evidence.greatest(name)
        listed = ", ".join(map(str, sorted(order[:count].tolist())[:4])) + ", ..." * (count > 4)
        yield Fact(
            "outlier-channel" if count == 1 else "outlier-channel.several", (node, op, name),
            {
                "listed": listed, "channels": len(amax), "name": name, "reach": float(amax[order[0]]),
                "rest": rest, "command": evidence.command, "codes": codes * rest / threshold, "most": codes,
            },
        )  # fmt: skip
