"""The sizes that a run decided for, deployment by deployment."""

from __future__ import annotations

from dataclasses import dataclass

from onnxq.advice.worth import reading, worth_of
from onnxq.analysis.sizes import share_words, sizes_words, worth_words
from onnxq.base.reason import say
from onnxq.documents.deployment import DeploymentPart, NamedDeployment
from onnxq.documents.report import Report


@dataclass(frozen=True, slots=True)
class SizesOf:
    """A deployment.

    Attributes:
        title: its name, and its share of the work; "" of the only one.
        lines: its sizes, what they decide, and what quantization does to the engine at them.
    """

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SizesView:
    """The section.

    Attributes:
        deployments: each of them.
        profiles: the profiles of the engine: the inputs, with their smallest, usual and largest shape.
    """

    deployments: tuple[SizesOf, ...]
    profiles: tuple[str, ...]


def sizes_view(report: Report) -> SizesView | None:
    """What a run decided for; None where all sizes are static, or the report is older and has no profiles."""
    named = report.deployments or ()
    sizes = [SizesOf(share_words(one), _lines(one)) for one in named]
    if not sizes and report.deployment and report.deployment.dimensions:
        sizes = [SizesOf("", _lines(report.deployment))]
    profiles = [(f"{one.name}: ", one.profiles) for one in named] or [("", report.profiles)]
    said = [
        f"{of}{name} {' : '.join(' × '.join(map(str, shape)) for shape in shapes)}"
        for of, each in profiles
        for name, shapes in (each or {}).items()
    ]
    return SizesView(tuple(sizes), tuple(said)) if sizes or said else None


def _lines(one: DeploymentPart | NamedDeployment) -> tuple[str, ...]:
    lines = [*sizes_words(one.dimensions or ()), worth_words(one.worth or ())]
    if isinstance(one, NamedDeployment):
        worth = worth_of(one.verdict)
        lines.append("" if worth is None else worth.line)
        if one.activation_mb is not None:
            lines.append(say("engine-memory", megabytes=one.activation_mb))
    said = reading(one)
    lines += [said, say("worth.helps-reading")] if said else []
    return tuple(filter(None, lines))
