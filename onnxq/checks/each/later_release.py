"""What the target takes from one of its later releases on."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Fact, Subject, check
from onnxq.graph.features import needs
from onnxq.targets import load_target


@check(
    "later-release", needs="file", severity="note",
    kind="release",
)  # fmt: skip
def later_release(subject: Subject) -> Iterator[Fact]:
    """Each node with such a feature; earlier releases reject it as those that lack it."""
    target = load_target(subject.target)
    for node in subject.nodes if target.since else ():
        for feature, has in needs(node).items():
            if feature in target.since and feature not in target.lacks:
                yield Fact(
                    "later-release", (node.name, node.op),
                    {"target": target.title, "has": has, "release": target.since[feature]},
                )  # fmt: skip
