"""Heavy layers that stay in float, and why."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Evidence, Said, check, stated
from onnxq.checks.evidence import FloatLayer
from onnxq.checks.limits import HEAVY

_ADVICE = {
    "keep-float": "leave --keep-float out for it",
    "keep-fp32": "leave --keep-fp32 out for it",
    "layer": "leave its [[layer]] out of the configuration",
    "plan": "give it format int8 in the plan, or leave --plan out",
    "not-calibrated": "give the library of the custom operator with --ort-ops, so that it can be measured",
    "no-pair": "quantize the float model with onnxq, which says of each layer why it is not int8",
    "goal": "it is float for the goal: allow a lower one, or let onnxq repair more",
}

INELIGIBLE = stated("heavy-ineligible", needs="data", severity="note")


@check("heavy-float", needs="data")
def heavy_floats(evidence: Evidence) -> Iterator[Said]:
    """Layers of many multiply-accumulates that int8 does not make faster."""
    for layer in evidence.floats:
        if layer.share >= HEAVY:
            yield Said(
                layer.node, layer.op,
                f"it stays in float: {layer.because}", _advice(layer, evidence),
                consequence=f"{layer.share:.0%} of the model's multiply-accumulates are not in int8",
                check=None if layer.eligible else INELIGIBLE,
            )  # fmt: skip


def _advice(layer: FloatLayer, evidence: Evidence) -> str:
    advice = _ADVICE.get(layer.code)
    return f"{advice}: {evidence.command}" if advice else "nothing, unless the layer can be written otherwise"
