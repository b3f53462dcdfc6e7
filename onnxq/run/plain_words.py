"""What onnxruntime says, without its codes and the places in its sources."""

from __future__ import annotations

import re

_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_WHERE = re.compile(
    r"^(Load model from .*? failed: ?|Exception during initialization: |This is an invalid model\. )"
)
_PLACE = re.compile(r"^\S+\.(?:cc|cpp|h|hpp):\d+ (?:[^()]*?[\w>~]+\([^()]*\)(?: const)? )?")
_LOCALE = re.compile(r".*Failed to construct locale with name:(\S*?):.*", re.DOTALL)


def plain(text: str) -> str:
    """Onnxruntime's words alone; what it says of the machine, in ours."""
    text = _LOCALE.sub(r"this machine has no locale '\1', which the model asks for: install it", text)
    before = ""
    while text != before:
        before = text
        for pattern in (_CODE, _WHERE, _PLACE):
            text = pattern.sub("", text)
    return text
