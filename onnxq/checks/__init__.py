"""Checks: what is looked for in a model. A check is one file: onnxq's in `each/`, yours anywhere.

    from onnxq.checks import Said, Subject, check

    @check("no-bias", "a Conv without a bias", needs="file", severity="note")
    def no_bias(subject: Subject):
        for node in subject.nodes:
            if node.op == "Conv" and len(node.inputs) < 3:
                yield Said(node.name, node.op, "it has no bias", "train it with one")

This is what such a file imports. `api.py` says what a check is, `load.py` finds onnxq's, `own.py` the user's.
"""

from __future__ import annotations

from onnxq.checks.api import NEEDS, Check, Need, Said, check, stated
from onnxq.checks.engine import Seen
from onnxq.checks.evidence import Evidence, keep_float
from onnxq.checks.subject import AGAIN, Product, Subject

__all__ = [
    "AGAIN",
    "NEEDS",
    "Check",
    "Evidence",
    "Need",
    "Product",
    "Said",
    "Seen",
    "Subject",
    "check",
    "keep_float",
    "stated",
]
