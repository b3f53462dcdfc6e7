"""What nodes cost in float, as the user states it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxq.base import door
from onnxq.base.errors import UserError, in_short, unknown_name
from onnxq.graph.model import Model
from onnxq.options.settings import UNITS
from onnxq.pipeline.calibration import Prepared
from onnxq.pipeline.job import Job


def read_costs(costs: str | os.PathLike[str] | Mapping[str, float]) -> str | dict[str, float]:
    """A unit, or what nodes cost: of a mapping, or of a JSON file.

    Raises:
        UserError: the file cannot be read, or is no object of numbers.
    """
    if isinstance(costs, str) and costs in UNITS:
        return costs
    if isinstance(costs, Mapping):
        return _checked(dict(costs), "the costs")
    path = Path(costs)
    hint = 'the form is {"node": 1.5, ...}; or give ' + " or ".join(UNITS)
    try:
        document = json.loads(door.content(path))
    except OSError as error:
        near = (
            [entry.name for entry in sorted(path.parent.glob("*.json"))] if os.path.isdir(path.parent) else []
        )
        near += UNITS
        missing = unknown_name("file of costs", str(path), near)
        raise UserError(f"cannot read {str(path)!r}: {error.strerror}", hint=missing.hint or hint) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is no JSON: {error}", hint=hint) from error
    if not isinstance(document, dict):
        raise UserError(f"{str(path)!r} holds no costs by node, but {type(document).__name__}", hint=hint)
    return _checked(document, repr(str(path)))


def _checked(costs: dict[str, Any], where: str) -> dict[str, float]:
    for name, cost in costs.items():
        number = isinstance(cost, int | float) and not isinstance(cost, bool)
        if not number or not 0 <= cost <= sys.float_info.max:
            raise UserError(
                f"{where}: the cost of node {name!r} is {in_short(cost)}",
                hint="give a number that is not negative",
            )
    if not costs:
        raise UserError(f"{where}: there is no node", hint='the form is {"node": 1.5, ...}')
    return {str(name): float(cost) for name, cost in costs.items()}


def costs_of_nodes(costs: Mapping[str, float], job: Job, prepared: Prepared) -> dict[str, float]:
    """The costs of the nodes that are quantized; others may have some too, if they exist.

    Raises:
        UserError: a node does not exist, or none is quantized.
    """
    now = {node.name for node in prepared.floats.model.nodes}
    names = now | {node.name for node in Model.open(job.source).nodes} if set(costs) - now else now
    for name in costs:
        if name not in names:
            raise unknown_name("node", name, sorted(names))
    readers = prepared.draft.plan.readers
    of_readers = {name: cost for name, cost in costs.items() if name in readers}
    if not of_readers and readers:
        raise UserError(
            "no node that costs something is quantized: there is nothing to choose by",
            hint=f"quantized are {', '.join(sorted(readers)[:5])}",
        )
    return of_readers
