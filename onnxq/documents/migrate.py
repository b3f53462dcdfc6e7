"""Documents of earlier versions, brought up to what is written today: once, before anybody looks at them.

A field that an earlier version did not have is left missing. What stands here is what it said otherwise.
"""

from __future__ import annotations

from typing import Any

_FIRST = "int8"
"""The number format of what does not say it."""


def brought_up(document: dict[str, Any]) -> dict[str, Any]:
    """A document of a run, or an analysis, in today's words. What is not as it should be stays as it is.

    Args:
        document: plain JSON, with its kind; it is not modified.
    """
    migrated = dict(document)
    for part, change in (("plan", _plan), ("body", _body), ("worst", _worst), ("layer_errors", brought_up)):
        if isinstance(migrated.get(part), dict):
            migrated[part] = change(migrated[part])
    calibration, repair = migrated.get("calibration"), migrated.get("repair")
    if isinstance(calibration, dict) and isinstance(repair, dict) and "before" not in calibration:
        migrated["calibration"] = {**calibration, "before": _before(repair.get("edits"))}
    return migrated


def _plan(plan: dict[str, Any]) -> dict[str, Any]:
    """A layer said whether it is int8, and now says its format; so does a pair, which had that of all."""
    layers, sites, format = plan.get("layers"), plan.get("sites"), plan.get("format", _FIRST)
    if isinstance(sites, list):
        held = [{"format": format, **one} if isinstance(one, dict) else one for one in sites]
        plan = {**plan, "sites": held}
    if not isinstance(layers, list):
        return plan
    return {**plan, "layers": [_layer(one) if isinstance(one, dict) else one for one in layers]}


def _layer(layer: dict[str, Any]) -> dict[str, Any]:
    if layer.get("format"):
        return layer
    return {**layer, "format": _FIRST if layer.get(_FIRST) else "float"}


def _body(body: dict[str, Any]) -> dict[str, Any]:
    """A layer whose scales stand behind the product was an object, and is its name."""
    layers = body.get("post_scaled")
    if not isinstance(layers, list):
        return body
    return {**body, "post_scaled": [one.get("tensor") if isinstance(one, dict) else one for one in layers]}


def _worst(worst: dict[str, Any]) -> dict[str, Any]:
    """An output did not say its shape: whether its greatest value is one answer is not known."""
    outputs = worst.get("outputs")
    if not isinstance(outputs, list):
        return worst
    return {**worst, "outputs": [_told(one) if isinstance(one, dict) else one for one in outputs]}


def _told(output: dict[str, Any]) -> dict[str, Any]:
    return output if output.get("shape") is not None else {**output, "argmax": None}


def _before(edits: Any) -> dict[str, Any]:
    """What was measured was of each tensor before its edit, which was not said."""
    listed = [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else []
    return {one["tensor"]: one.get("kind") for one in listed if isinstance(one.get("tensor"), str)}
