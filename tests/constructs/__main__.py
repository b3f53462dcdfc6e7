"""Repairs constructs and compiles them, before and after: `python -m tests.constructs [SUBJECT | GLOB ...]`.

    python -m tests.constructs                       all, with the stored verdicts
    python -m tests.constructs --raw                 all; the models as they are are compiled again, too
    python -m tests.constructs scatter 'pooling/*'   some
    python -m tests.constructs --resume              what an interrupted run has not done

Where nothing is chosen or `--raw` is given, `verdicts.json` is written.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import chosen, constructs
from .judge import UNCHANGED, judge
from .pool import judged
from .verdicts import Verdict, holds, store, stored

ROWS = Path("out/constructs.jsonl")
NOT_WELL = ("wrong", "rejected", "raised", "crashed", "not run")


def main() -> int:
    arguments = _arguments()
    wanted = chosen(arguments.globs)
    if not wanted:
        print(f"no construct is called {' or '.join(arguments.globs)}", file=sys.stderr)
        return 2
    known = {} if arguments.raw else stored()
    rows: dict[str, dict[str, Any]] = {}
    if arguments.resume and arguments.rows.exists():
        rows = {row["name"]: row for row in map(json.loads, arguments.rows.read_text("utf-8").splitlines())}
        keys = {one.key: one.digest for one in wanted}
        rows = {name: row for name, row in rows.items() if keys.get(name) == row["model"]}
    tasks = []
    for one in wanted:
        if one.key not in rows:
            verdict = known.get(one.key)
            tasks.append(
                (one.key, (verdict.verdict, verdict.message) if verdict and holds(verdict, one) else None)
            )
    arguments.rows.parent.mkdir(parents=True, exist_ok=True)
    with arguments.rows.open("a" if arguments.resume else "w", encoding="utf-8") as log:
        for count, (key, row) in enumerate(judged(tasks, judge, arguments.processes), 1):
            rows[key] = _complete(key, row)
            log.write(json.dumps(rows[key]) + "\n")
            log.flush()
            if sys.stderr.isatty():
                print(f"\r\033[K{count} of {len(tasks)}: {key}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    show(rows.values(), details=not arguments.table)
    if arguments.raw or not arguments.globs:
        _write(rows)
    return 0


def show(rows: Iterable[dict[str, Any]], *, details: bool) -> None:
    """Prints what is not well, and a table by subject."""
    rows = sorted(rows, key=lambda row: row["name"])
    for row in rows if details else ():
        if row["outcome"] in NOT_WELL:
            what = row["outcome"] if row["verdict"] != "accepted" else f"broken ({row['outcome']})"
            why = row["message"] if row["why"] == UNCHANGED else row["why"]
            print(f"{row['name']}: {what}: {why}")
    heads = (
        "rejected",
        "fixed",
        "wrong",
        "still rejected",
        "raised",
        "accepted",
        "kept",
        "broken",
        "not run",
        "s",
    )
    print(f"\n{'subject':<20}" + "".join(f"{head:>15}" for head in heads))
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    for subject in [*subjects, "all"]:
        part = [row for row in rows if subject in ("all", row["subject"])]
        count = Counter((row["verdict"], row["outcome"]) for row in part)
        raised = sum(count["rejected", what] for what in ("raised", "crashed"))
        accepted = sum(number for (verdict, _), number in count.items() if verdict == "accepted")
        figures: list[float] = [
            sum(number for (verdict, _), number in count.items() if verdict == "rejected"),
            count["rejected", "fixed"],
            count["rejected", "wrong"],
            count["rejected", "rejected"],
            raised,
            accepted,
            count["accepted", "kept"],
            accepted - count["accepted", "kept"],
            count["", "not run"],
            round(sum(row["seconds"] for row in part), 1),
        ]
        print(f"{subject:<20}" + "".join(f"{figure:>15}" for figure in figures))


def _complete(key: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row with all that a table needs, also of a process that died."""
    if "died" in row:
        verdict = stored().get(key)
        known = {"verdict": verdict.verdict, "message": verdict.message} if verdict else {}
        row = {"verdict": "", "message": "", "model": "", **known, "outcome": "crashed", "why": row["died"]}
    return {"name": key, "subject": key.split("/")[0], "flags": {}, "seconds": 0.0, **row}


def _write(rows: dict[str, dict[str, Any]]) -> None:
    """Stores the verdicts of these rows, and keeps those of other constructs that still exist."""
    before = {key: verdict for key, verdict in stored().items() if key in constructs()}
    after = {
        key: Verdict(row["verdict"], row["message"], row["outcome"], row["model"])
        for key, row in rows.items()
        if row["outcome"] not in ("not run", "crashed")
    }
    for key, verdict in after.items():
        old = before.get(key)
        if old and old.outcome and (old.verdict, old.outcome) != (verdict.verdict, verdict.outcome):
            print(f"{key}: {old.verdict}, {old.outcome} -> {verdict.verdict}, {verdict.outcome}")
    store({**{key: old for key, old in before.items() if key not in after}, **after})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.constructs", description="repair and compile constructs"
    )
    parser.add_argument("globs", nargs="*", metavar="SUBJECT|GLOB", help="of subject/name")
    parser.add_argument(
        "--raw", action="store_true", help="make the verdicts on the models as they are again"
    )
    parser.add_argument("--resume", action="store_true", help="go on where an interrupted run ended")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--rows", type=Path, default=ROWS, metavar="FILE", help=f"default: {ROWS}")
    parser.add_argument("--table", action="store_true", help="only the table")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
