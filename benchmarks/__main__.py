"""Runs every benchmark, each in a fresh process, and prints one table: `python -m benchmarks`."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.common import print_header

BENCHMARKS = ("calibration", "memory", "sanitize", "big", "corpus")


def main() -> int:
    print_header()
    codes = [subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode for name in BENCHMARKS]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
