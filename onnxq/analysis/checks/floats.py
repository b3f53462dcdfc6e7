"""Heavy layers that stay in float, and why."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.analysis.checks.evidence import Evidence, FloatLayer
from onnxq.analysis.checks.limits import HEAVY
from onnxq.finding import Finding, finding

_ADVICE = {
    "keep-float": "leave --keep-float out for it",
    "layer": "leave its [[layer]] out of the configuration",
    "plan": "give it format int8 in the plan, or leave --plan out",
    "not-calibrated": "give the library of the custom operator with --ort-ops, so that it can be measured",
    "no-pair": "quantize the float model with onnxq, which says of each layer why it is not int8",
    "goal": "it is float for the goal: allow a lower one, or let onnxq repair more",
}


def heavy_floats(evidence: Evidence) -> Iterator[Finding]:
    """Layers of many multiply-accumulates that int8 does not make faster."""
    for layer in evidence.floats:
        if layer.share >= HEAVY:
            yield finding(
                "heavy-float" if layer.eligible else "heavy-ineligible", layer.node, layer.op,
                f"it stays in float: {layer.because}", _advice(layer, evidence),
                consequence=f"{layer.share:.0%} of the model's multiply-accumulates are not in int8",
            )  # fmt: skip


def _advice(layer: FloatLayer, evidence: Evidence) -> str:
    known = _ADVICE.get(layer.code)
    return f"{known}: {evidence.command}" if known else "nothing, unless the layer can be written otherwise"
