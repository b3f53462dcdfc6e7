"""What is said where native code ended a run: a line, as of any other error."""

from __future__ import annotations

import sys

from onnxq.base.reason import say
from onnxq.cli.screen import Screen
from onnxq.cli.verb import report_error

_EXPLAINED = ("SIGFPE", "SIGBUS")


def died(signal: str) -> int:
    """Says that native code ended the run, by which signal; returns the exit code."""
    screen = Screen(quiet=False, verbose=False, json="--json" in sys.argv)
    said = say(f"died.{signal}" if signal in _EXPLAINED else "died", signal=signal)
    return report_error(screen, said, say("died.hint"), 2)
