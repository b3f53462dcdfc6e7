"""What is told of checks themselves, by what asks them: these are checks without a function."""

from __future__ import annotations

from onnxq.checks.api import AT_NODE, stated

FAILED_CHECK = stated(
    "failed-check",
    needs="data",
    severity="note",
    command=AT_NODE,
)
OWN_CHECK = stated(
    "own-check",
    needs="plan",
    kind="own",
    command=AT_NODE,
)
BROKEN_CHECK = stated(
    "broken-check",
    needs="plan",
    severity="error",
    kind="own",
    command=AT_NODE,
)
