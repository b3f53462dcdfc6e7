"""One page of all rules, in Markdown, of what stands in their files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnxq.base.reason import say
from onnxq.rule.api import Rule

STAGES = {
    "clean": "what every model wants",
    "compat": "what a target lacks",
    "fuse": "what makes layers quantizable",
    "place": "where Q/DQ pairs go",
}
"""The stages, in their order, and what they are for."""

_HEAD = """\
# The rules

What `onnxq` does to a graph, one rule a file in `rules/`. This page is written by `onnxq rules page` from the
documentation in those files; `onnxq rules explain NAME` shows one of them, and
`onnxq rules explain --message TEXT` finds those that repair what TensorRT said.
"""


def markdown(rules: Sequence[Rule]) -> str:
    """The page."""
    return "\n".join(_lines(rules)) + "\n"


def _lines(rules: Sequence[Rule]) -> Iterator[str]:
    yield _HEAD
    for stage, text in STAGES.items():
        of_stage = [rule for rule in rules if rule.stage == stage]
        yield f"- [{stage}](#{stage}): {text} ({len(of_stage)})"
    for stage in STAGES:
        yield f"\n## {stage}"
        for rule in sorted((rule for rule in rules if rule.stage == stage), key=lambda rule: rule.id):
            operators = "every operator" if "*" in rule.roots else ", ".join(f"`{op}`" for op in rule.roots)
            said = condition(rule.id, rule.lacks, rule.default, "`{}`")
            yield f"\n### {rule.id}\n\n{operators}{'; ' * bool(said)}{said}\n\n{rule.doc.strip()}"


def condition(rule: str, lacks: str | None, default: bool, form: str = "{}") -> str:
    """Where a rule is on, if not always; `form`: how what is typed is written."""
    if lacks:
        return say("rule.lacks", lacks=form.format(lacks))
    return "" if default else say("rule.enable", flag=form.format(f'enable = ["{rule}"]'))
