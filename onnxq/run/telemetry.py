"""onnxruntime's own records of what runs in it, which are off unless the user says otherwise."""

from __future__ import annotations

import os
import sys

VARIABLE = "ORT_DISABLE_TELEMETRY"


def switch_off() -> None:
    """Has onnxruntime record nothing, in this process and in those that it starts.

    From 1.31 on its Linux packages do, as soon as they are imported: names of graphs and nodes, paths and
    errors, in the user's cache folder and in that for temporary files. Where the variable is set, the user
    has decided.
    """
    if VARIABLE in os.environ:
        return
    os.environ[VARIABLE] = "1"
    if "onnxruntime" in sys.modules:  # it has looked at the variable
        sys.modules["onnxruntime"].disable_telemetry_events()
