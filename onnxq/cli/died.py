"""What is said where native code ended a run: a line, as of any other error."""

from __future__ import annotations

import sys

from onnxq.cli.screen import Screen
from onnxq.cli.verb import report_error

_CAUSES = {
    "SIGFPE": ", in which an integer is divided by zero, or the least one by -1",
    "SIGBUS": ", of which a file became shorter meanwhile",
}


def died(signal: str) -> int:
    """Says that native code ended the run, by which signal; returns the exit code."""
    screen = Screen(quiet=False, verbose=False, json="--json" in sys.argv)
    return report_error(
        screen,
        f"native code ended the run ({signal}): onnxruntime, or a library that it loads, does not survive "
        f"this model{_CAUSES.get(signal, '')}",
        "onnxq inspect reads it without running it; else try another version of onnxruntime",
        2,
    )
