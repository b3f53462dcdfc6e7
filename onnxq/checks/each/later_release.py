"""What the target takes from one of its later releases on."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.checks import Said, Subject, check
from onnxq.graph.features import needs
from onnxq.targets import load_target


@check(
    "later-release", needs="file", severity="note",
    kind="release",
)  # fmt: skip
def later_release(subject: Subject) -> Iterator[Said]:
    """Each node with such a feature; earlier releases reject it as those that lack it."""
    target = load_target(subject.target)
    for node in subject.nodes if target.since else ():
        for feature, has in needs(node).items():
            if feature in target.since:
                release = target.since[feature]
                yield Said(
                    node.name, node.op, f"{target.title} takes {has} from {release} on",
                    f"build with TensorRT {release} or a newer one; for an older one change it before the "
                    "export, or cut the model in front of it",
                    consequence=f"a release before {release} rejects the model",
                )  # fmt: skip
