"""Rules broken in every small way: do their own examples and the proof notice?

`python -m benchmarks.mutants [RULE ...]` makes the mutants of the built-in rules from their syntax trees (a
swapped comparison, a constant off by one, a dropped guard, swapped branches, a negated condition, another
operator or attribute), and runs each against the rule's examples. Four columns:

- noticed: an example fails, or the file does not load;
- equivalent: listed in `EQUIVALENT`, with the reason;
- right too: no example notices it, and on a pool of models (all examples, neighbours of the rule's own that
  differ in one place, random graphs) nothing is wrong. Either it answers otherwise on some of them and the
  proof shows every such change to be right, with half the bound to spare; or what it changes has another
  value on at least three of them, and the answers are the same on all;
- survivors: the rest: a model of the pool shows that it is wrong, or says or does less, or no model of the
  pool reaches it.

What counts is noticed / (noticed + survivors). `--rules DIR` takes the rules of your own folder;
`--json FILE` adds one line for each rule as it is done.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants.judging import Found, judge
from onnxq.base.errors import unknown_name
from onnxq.rule.load import builtin_dir, load_rules


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the counts; 1 where something survives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="RULE", help="names of rules, all by default")
    parser.add_argument("--rules", type=Path, metavar="DIR", help="your folder, not the built-in rules")
    parser.add_argument("--json", type=Path, help="a file to add a line to for each rule")
    given = parser.parse_args(arguments)
    rules = load_rules() if given.rules is None else load_rules((given.rules,))
    home = builtin_dir() if given.rules is None else given.rules
    chosen = [rule for rule in rules if Path(rule.path).resolve().parent == home.resolve()]
    for name in given.names:
        if all(rule.id != name for rule in chosen):
            parser.error(str(unknown_name("rule", name, [rule.id for rule in chosen])))
    every: list[Found] = []
    print(f"{'':28}{'all':>6}{'noticed':>9}{'equivalent':>12}{'right too':>11}{'survivors':>11}")
    for rule in chosen:
        if given.names and rule.id not in given.names:
            continue
        found = judge(rule, rules)
        every.append(found)
        _print(found.rule, [found])
        for name, kept in (("right too", found.right), ("survives", found.survivors)):
            for mutant, evidence in kept:
                print(f"    {name}: {mutant.kind}: {mutant.what} ({evidence})", flush=True)
        if given.json is not None:
            line = {
                "rule": rule.id,
                "total": found.total,
                "noticed": found.noticed,
                "equivalent": found.equal,
                "kinds": found.kinds,
                "right": [[mutant.kind, mutant.what, evidence] for mutant, evidence in found.right],
                "survivors": [[mutant.kind, mutant.what, evidence] for mutant, evidence in found.survivors],
            }
            with given.json.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    _print("all", every)
    noticed = sum(found.noticed for found in every)
    wrong = noticed + sum(len(found.survivors) for found in every)
    same = sum("the same answers" in evidence for found in every for _, evidence in found.right)
    print(f"{noticed} of {wrong} wrong mutants noticed: {noticed / max(wrong, 1):.1%}")
    print(f"({noticed / max(wrong + same, 1):.1%} if the {same} right ones of equal answers count too)")
    return 1 if noticed < wrong else 0


def _print(name: str, found: Sequence[Found]) -> None:
    counts = [[f.total, f.noticed, f.equal, len(f.right), len(f.survivors)] for f in found]
    sums = [sum(column) for column in zip(*counts, strict=True)] or [0] * 5
    print("{:28}{:>6}{:>9}{:>12}{:>11}{:>11}".format(name, *sums), flush=True)


if __name__ == "__main__":
    sys.exit(main())
