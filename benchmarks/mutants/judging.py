"""What notices a mutant: the rule's own examples; else a pool of models tells."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutants.child import in_child
from benchmarks.mutants.equivalent import EQUIVALENT
from benchmarks.mutants.generate import Mutant, mutants
from benchmarks.mutants.pool import Entry, evidence_of, pool_of
from onnxq.base.errors import UserError
from onnxq.graph.model import Model
from onnxq.inspection.examples import check_example
from onnxq.rewrite.engine import rewrite
from onnxq.rewrite.examples import same_text, text_of
from onnxq.rule.api import (
    Assuming,
    Close,
    Example,
    Except,
    Fires,
    Node,
    Rule,
    Within,
)
from onnxq.rule.examples import opened


@dataclass(slots=True)
class Found:
    """What became of the mutants of a rule.

    Attributes:
        rule: its name.
        total: all mutants.
        equal: those that are listed as equivalent.
        right: those that nothing shows to be wrong, and what shows them to be right.
        survivors: those that are wrong, or may be, and that no example notices; and what is known of them.
        kinds: how many of each kind there are.
        seconds: how long it took.
    """

    rule: str
    total: int
    equal: int
    right: list[tuple[Mutant, str]]
    survivors: list[tuple[Mutant, str]]
    kinds: dict[str, int]
    seconds: float

    @property
    def noticed(self) -> int:
        """How many fail an example, or do not load."""
        return self.total - self.equal - len(self.right) - len(self.survivors)


def judge(
    rule: Rule, rules: Sequence[Rule], chosen: Sequence[Mutant] | None = None, *, pool: bool = True
) -> Found:
    """Runs mutants of a rule against its examples, all by default.

    Args:
        rule: the rule.
        rules: all rules.
        chosen: the mutants.
        pool: whether what no example notices is compared with the rule on a pool of models.
    """
    every = list(mutants(Path(rule.path).read_text("utf-8"))) if chosen is None else list(chosen)
    start = time.monotonic()
    found = Found(rule.id, len(every), 0, [], [], {}, 0.0)
    sound = _traces(rule, rules)
    entries: list[Entry] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for helper in Path(rule.path).parent.glob("_*.py"):
            shutil.copy(helper, folder)
        for mutant in every:
            found.kinds[mutant.kind] = found.kinds.get(mutant.kind, 0) + 1
            if (rule.id, mutant.what) in EQUIVALENT:
                found.equal += 1
            elif in_child(Path(folder), rule, mutant.text, lambda r: _check(r, rules, sound)) is not None:
                if entries is None:
                    entries = pool_of(rule, rules) if pool else []
                evidence = evidence_of(rule, mutant, Path(folder), rules, entries)
                (found.right if evidence.startswith("right") else found.survivors).append((mutant, evidence))
    found.seconds = time.monotonic() - start
    return found


def _check(rule: Rule, rules: Sequence[Rule], sound: Sequence[object]) -> None:
    """Checks the examples in which a rule does something else than it should; no others can fail."""
    others = [other for other in rules if other.id != rule.id]
    traces = _traces(rule, [*others, rule])
    if len(traces) != len(sound):
        raise UserError("other examples")
    unlike = [
        e for e, now, was in zip(rule.examples, traces, sound, strict=True) if now != was or now is None
    ]
    for example in sorted(unlike, key=lambda e: not getattr(e, "becomes", "")):
        check_example(rule, example, [*others, rule])


def _traces(rule: Rule, rules: Sequence[Rule]) -> list[object]:
    """What a rule does in each of its examples and says of it, before any proof; None for placement rules."""
    return [None if rule.stage == "place" else _trace(rule, example, rules) for example in rule.examples]


def _trace(rule: Rule, example: Example, rules: Sequence[Rule]) -> object:
    said: list[object] = []

    def spied(node: Node) -> object:
        answer = claim = rule.function(node)
        while isinstance(claim, Assuming | Close | Except | Within):
            fields = dataclasses.fields(claim)
            told = {
                f.name: getattr(claim, f.name)
                for f in fields
                if f.name in ("but", "steps", "dim", "size", "why")
            }
            said.append((node.name, type(claim).__name__, told))
            claim = claim.results
        return answer

    model = opened(example)
    chosen = [
        dataclasses.replace(rule, function=spied),
        *(other for other in rules if other.id in example.after),
    ]
    if isinstance(example, Fires):
        model.assumed.update(example.assume)
    found: list[object] = []
    for _ in range(2):  # a second run must change nothing
        before = model.to_proto()
        report = rewrite(model, chosen, lambda feature: True, prove="never", interface=True)
        changes = [(change.rule, change.node) for change in report.changes]
        refused = [(change.node, change.proof.why) for change in report.rejected]
        proto = model.to_proto()
        found += [changes, refused, report.near_misses, proto.SerializeToString(deterministic=True)]
        stated = example.becomes if isinstance(example, Fires) and len(found) == 4 else ""
        if stated and not same_text("\n".join(text_of(proto, before)), stated):
            raise UserError("another graph")  # whatever the proof says
        model = Model.open(proto)
    return [*found, said]
