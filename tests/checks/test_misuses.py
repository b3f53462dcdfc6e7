"""Known misuses, each provoked through the command line, and each named; what is right is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from misuse_nets import MISUSES, RIGHT, net, usual

from onnxq.checks.load import CHECKS
from onnxq.cli.app import app


def checked(
    folder: Path, body: str, data: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str], *flags: str
) -> dict[str, Any]:
    """What `onnxq check MODEL --calib DATA` says, and its exit code."""
    onnx.save(net(body), folder / "net.onnx")
    np.savez(folder / "data.npz", **data)
    given = [
        "check",
        str(folder / "net.onnx"),
        "--calib",
        str(folder / "data.npz"),
        "--prove",
        "never",
        "--json",
    ]
    code = app([*given, *flags], prog_name="onnxq", standalone_mode=False) or 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {**document, "code": code}


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    misuse = MISUSES[name]
    document = checked(tmp_path, misuse.body, misuse.data(), capsys, *misuse.flags)
    found = [one for one in document["findings"] if one["check"] == misuse.check]
    assert found, [one["check"] for one in document["findings"]]
    assert any(misuse.says in f"{one['reason']} {one['consequence']}" for one in found)
    for one in found:
        assert one["severity"] == CHECKS[misuse.check].severity
        assert one["consequence"]
        assert one["advice"]
        assert (one["db"] is not None) == (" dB" in one["consequence"])
        if one["check"] not in ("few-samples", "odd-type", "unfused") and not one["check"].endswith(
            ("units", "pixels", "order", "input")
        ):
            assert "onnxq quantize " in one["advice"]
            assert one["node"] or one["tensor"]
    assert document["code"] == 0
    assert document["measured"]["tensors"] > 0


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_told(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body, data = RIGHT[name]
    document = checked(tmp_path, body, data(), capsys, "--no-engine", "--strict")
    assert document["findings"] == []
    assert document["code"] == 0


def test_a_warning_fails_with_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body, _ = RIGHT["float"]
    document = checked(tmp_path, body, usual(5), capsys, "--no-engine", "--strict")
    assert [one["check"] for one in document["findings"]] == ["few-samples"]
    assert document["code"] == 1
