"""The round trip of plans: what differs is told, what does not end is left, what is done is not run again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import plan_roundtrip


@pytest.mark.parametrize(
    ("verdict", "code", "count"), [("same", 0, 2), ("OTHER", 1, 2), ("FAILED", 1, 2), ("no end", 0, 1)]
)
def test_verdicts(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verdict: str,
    code: int,
    count: int,
) -> None:
    ran: list[str] = []

    def alone(name: str, mode: str, given: Any) -> dict[str, Any]:
        ran.append(f"{name} {mode}")
        return {"verdict": verdict, "why": "as asked"}

    monkeypatch.setattr(plan_roundtrip, "_alone", alone)
    words = ["plan_roundtrip", "--models", "digits", "--modes", "default", "loud"]
    monkeypatch.setattr("sys.argv", [*words, "--out", str(tmp_path / "out.json")])
    assert plan_roundtrip.main() == code
    assert ran == ["digits default", "digits loud"][:count]
    assert f"{verdict}: {count}" in capsys.readouterr().out
    assert plan_roundtrip.main() == code
    assert len(ran) == count


def test_a_plan_that_says_less_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_roundtrip._judged("squeeze", "default", 4)["verdict"] == "same"
    files = plan_roundtrip.PlanFile.files

    def without(self: Any, name: str) -> dict[str, bytes]:
        return {key: text.replace(b'"fp16"', b'"fp32"') for key, text in files(self, name).items()}

    monkeypatch.setattr(plan_roundtrip.PlanFile, "files", without)
    assert plan_roundtrip._judged("squeeze", "default", 4)["verdict"] == "OTHER"
