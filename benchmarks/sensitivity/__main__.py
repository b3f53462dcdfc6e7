"""Every table, each in a fresh process: `python -m benchmarks.sensitivity`."""

from __future__ import annotations

import subprocess
import sys

TABLES = ("planted", "searches", "reached", "halves", "top1")


def main() -> int:
    codes = []
    for table in TABLES:
        print(f"\n{table}", flush=True)
        codes.append(subprocess.run([sys.executable, "-m", f"benchmarks.sensitivity.{table}"]).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
