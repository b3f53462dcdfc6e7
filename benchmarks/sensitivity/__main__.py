"""Every table: `python -m benchmarks.sensitivity [--nets digits,...] [--samples 32] [--rows out.jsonl]`.

The planted causes, then of each trained net the searches, goals and halves, for which it is opened once, then
the user's metric.
"""

from __future__ import annotations

from benchmarks.sensitivity import halves, planted, reached, searches, top1
from benchmarks.sensitivity.measuring import flags, printed, trained


def main() -> None:
    given = flags(__doc__)
    print("planted causes")
    printed(planted.rows(range(3), given.samples), given.rows)
    compared: list[searches.Compared] = []
    for net in trained(given.nets, 0, given.samples):
        print(f"\n{net.name}")
        printed(searches.exhausted(net), given.rows)
        compared += printed(searches.compared(net), given.rows)
        printed(reached.rows(net, 0), given.rows)
        printed(halves.rows(net, 0, (4, given.samples // 2)), given.rows)
    print("\nthe search beside greedy orders, over the nets")
    printed(searches.over_nets(compared), given.rows)
    print("\ntop-1, --max-drop 0.1")
    printed((row for net in top1.NETS if net in given.nets for row in top1.rows(net, 0)), given.rows)


if __name__ == "__main__":
    main()
