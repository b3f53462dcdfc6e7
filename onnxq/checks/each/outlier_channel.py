"""Few channels that have the whole range of a tensor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxq.checks import Evidence, Said, check
from onnxq.checks.limits import CHANNELS, OUTLIER, OUTLIERS


@check("outlier-channel", needs="data", is_cause=True)
def outlier_channels(evidence: Evidence) -> Iterator[Said]:
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
        yield Said(
            node, op,
            f"channel{'s' * (count > 1)} {listed} of the {len(amax)} of {name!r} "
            f"reach{'es' * (count == 1)} {float(amax[order[0]]):.4g}, all others {rest:.4g} at most",
            "let onnxq take them out of the tensor, which changes no value: "
            f"{evidence.command} --repair scale,smooth",
            tensor=name,
            consequence=f"all others have {codes * rest / threshold:.1f} of the {codes} codes of a side",
        )  # fmt: skip
