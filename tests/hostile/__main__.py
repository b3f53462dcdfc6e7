"""Runs hostile constructs: `python -m tests.hostile [GLOB ...]`, and prints those that do not end as they should."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
from collections import Counter
from pathlib import Path

from . import data, models
from .judge import judged, warm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("globs", nargs="*", default=["*"])
    parser.add_argument("--rows", type=Path, default=Path("out/hostile.jsonl"))
    parser.add_argument("--all", action="store_true", help="print what ends well, too")
    asked = parser.parse_args()
    known = models.models() | data.data()
    chosen = [name for name in known if any(fnmatch.fnmatch(name, glob) for glob in asked.globs)]
    warm()
    codes: Counter[str] = Counter()
    bad = 0
    asked.rows.parent.mkdir(parents=True, exist_ok=True)
    with asked.rows.open("w", encoding="utf-8") as rows:
        for name in chosen:
            for verdict in judged(known[name]):
                codes[str(verdict.code)] += 1
                rows.write(json.dumps(verdict.row()) + "\n")
                rows.flush()
                bad += bool(verdict.wrong)
                if verdict.wrong or asked.all:
                    print(f"{name}: {verdict.line}: {verdict.wrong or 'well'} (exit {verdict.code}, {verdict.seconds:.1f} s, "
                          f"{verdict.peak >> 20} MiB)\n    {verdict.said[-400:]}", flush=True)  # fmt: skip
    print(f"{len(chosen)} constructs, {sum(codes.values())} runs, exit codes {dict(codes)}, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
