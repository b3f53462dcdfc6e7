"""The command line of a report's run, to be given again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from onnxq.analysis.reports import part_of
from onnxq.documents.advice import AdviceFinding, LikelyCause
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.options.command_line import accepted
from onnxq.quant.plan import Edge


def again(report: Report, *, without: Sequence[str] = (), more: Sequence[str] = ()) -> str:
    """The command line of a run, to be given again; "" where it was not a command line.

    Args:
        report: its report.
        without: flags that are left out, with their values.
        more: what is given beside.
    """
    kept = [part for part in asked_of(report) if part[0] not in without]
    return shlex.join(["onnxq", *(word for part in kept for word in part), *more]) if kept else ""


def given(report: Report, flag: str) -> bool:
    """Whether a flag was given."""
    return any(part[0] == flag for part in asked_of(report))


def asked_of(report: Report) -> list[tuple[str, ...]]:
    """The words of the command line: the verb and its places, then each flag with its values."""
    return [part for part in report.asked if part]


def runnable(finding: AdviceFinding, report: Report) -> AdviceFinding:
    """A finding whose causes have no command that would be refused, or that is the run's own once more."""

    def told(cause: LikelyCause) -> LikelyCause:
        ours = cause.command.startswith("onnxq ")
        stands = not ours or (cause.command != again(report) and accepted(cause.command, takes))
        return cause if stands else replace(cause, command="")

    own = {word for part in asked_of(report) if part[0] == "--keep-float" for word in part[1:]}
    takes = {
        "--keep-float": (free_nodes(report) | own).__contains__,  # the run's own globs were taken
        "--batch": lambda size: has_open_batch(report),
    }
    return replace(finding, causes=tuple(map(told, finding.causes)))


def free_nodes(report: Report) -> frozenset[str]:
    """The nodes that can be left in float: those that the run quantizes, and not the file's pairs."""
    plan = part_of(PlanPart, report.plan)
    edges = {edge for site in plan.sites for edge in site.readers}
    edges |= {edge for pair in plan.own_pairs_read for edge in pair.readers}
    held = {one.node for one in plan.layers if not {Edge(one.node, 0), Edge(one.node, 1)} <= edges}
    return frozenset(edge.node for edge in edges) - held


def has_open_batch(report: Report) -> bool:
    """Whether the model runs in batches of another size than its samples have."""
    return any(one.batch for one in report.deployment.dimensions)
