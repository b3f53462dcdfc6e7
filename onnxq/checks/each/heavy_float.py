"""Heavy layers that stay in float, and why."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Fact, check, stated
from onnxq.checks.limits import HEAVY

_FORMS = (".keep-float", ".keep-fp32", ".layer", ".plan", ".not-calibrated", ".no-pair", ".goal")
"""The reasons, by their codes, that something can be done about."""

INELIGIBLE = stated("heavy-ineligible", needs="data", severity="note")


@check("heavy-float", needs="data")
def heavy_floats(evidence: Evidence) -> Iterator[Fact]:
    """Layers of many multiply-accumulates that int8 does not make faster."""
    for layer in evidence.floats:
        if layer.share >= HEAVY:
            row, form = "heavy-float" if layer.eligible else "heavy-ineligible", f".{layer.code}"
            yield Fact(
                row + form * (form in _FORMS), (layer.node, layer.op),
                {"because": layer.because, "share": layer.share, "command": evidence.command},
            )  # fmt: skip
