"""What onnxruntime says, without its codes and the places in its sources."""

from __future__ import annotations

import re

_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_WHERE = re.compile(
    r"^(Load model from .*? failed: ?|Exception during initialization: |This is an invalid model\. )"
)
_PLACE = re.compile(r"^\S+\.(?:cc|cpp|h|hpp):\d+ (?:[^()]*?[\w>~]+\([^()]*\)(?: const)? )?")


def plain(text: str) -> str:
    """Onnxruntime's words alone."""
    before = ""
    while text != before:
        before = text
        for pattern in (_CODE, _WHERE, _PLACE):
            text = pattern.sub("", text)
    return text
