"""The stored verdicts: what the compiler says of each construct, and whether `sanitize` repairs it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from onnxq.run import trt

from .build import Construct

PATH = Path(__file__).with_name("verdicts.json")


@dataclass(frozen=True)
class Verdict:
    """What is known of a construct.

    Attributes:
        verdict: accepted or rejected, by the compiler, as it is.
        message: the first line of what the compiler says against it.
        outcome: what came of it after `sanitize`, as `judge.outcome` says.
        model: the digest of the model that was compiled.
    """

    verdict: str
    message: str
    outcome: str
    model: str


def stored() -> dict[str, Verdict]:
    """By `subject/name`."""
    if not PATH.exists():
        return {}
    entries = json.loads(PATH.read_text("utf-8"))["constructs"]
    return {key: Verdict(**entry) for key, entry in entries.items()}


def store(verdicts: Mapping[str, Verdict]) -> None:
    """Writes them, sorted."""
    entries = {key: asdict(verdict) for key, verdict in sorted(verdicts.items())}
    text = json.dumps({"compiler": trt.installed(), "constructs": entries}, indent=1, ensure_ascii=False)
    PATH.write_text(text + "\n", encoding="utf-8")


def holds(verdict: Verdict | None, construct: Construct) -> bool:
    """Whether a stored verdict is of this model and of the compiler that is installed."""
    if verdict is None or verdict.model != construct.digest:
        return False
    compiler = json.loads(PATH.read_text("utf-8"))["compiler"]
    return trt.installed() in (None, compiler)
