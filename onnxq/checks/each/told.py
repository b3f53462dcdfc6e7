"""What is told of checks themselves, by what asks them: these are checks without a function."""

from __future__ import annotations

from onnxq.checks.api import AT_NODE, stated

FAILED_CHECK = stated(
    "failed-check",
    "a check that failed: a fault of onnxq",
    needs="data",
    severity="note",
    command=AT_NODE,
)
OWN_CHECK = stated(
    "own-check",
    "what a function of yours finds, where it is no check",
    needs="plan",
    kind="own",
    command=AT_NODE,
)
BROKEN_CHECK = stated(
    "broken-check",
    "a function of yours that fails, or gives no findings",
    needs="plan",
    severity="error",
    kind="own",
    command=AT_NODE,
)
