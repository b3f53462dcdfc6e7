"""The fence of bytes: what is no result is left out of hashes, nothing else is, and what differs is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import same_bytes
from benchmarks.same_bytes import MODES, Mode, Runner, code_hash, differences, normalized
from onnxq.options.command_line import accepted

# A checkout whose command writes what it is told to, with a time.
FAKE = """
import json, os, sys
from pathlib import Path
words = sys.argv[1:]
out = Path(words[words.index("-o") + 1]) if "-o" in words else None
if out is not None:
    out.write_text("model")
    out.with_name(out.stem + ".toml").write_text(f'onnxq = "{os.getpid()}"\\nlayer = 1\\n')
calls = Path(os.environ["FAKE_CALLS"])
calls.write_text(calls.read_text() + words[1] + "\\n" if calls.exists() else words[1] + "\\n")
print(json.dumps({"seconds": os.getpid(), "where": str(Path.cwd() / "model.onnx"), "gain": GAIN}))
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAKE_CALLS", str(tmp_path / "calls"))
    tree = tmp_path / "tree"
    (tree / "onnxq").mkdir(parents=True)
    (tree / "onnxq/__init__.py").write_text("", "utf-8")
    (tree / "onnxq/__main__.py").write_text(f"GAIN = 1{FAKE}", "utf-8")
    modes = {
        "default": Mode(("quantize model.onnx -o default.onnx",)),
        "analyze": Mode(("analyze model.onnx --data {calib}",), after="default"),
    }
    monkeypatch.setattr(same_bytes, "MODES", modes)
    return tree


def ran(monkeypatch: pytest.MonkeyPatch, tree: Path, out: Path, *more: str) -> int:
    words = ["--quick", "--models", "squeeze", "--modes", "default", "analyze"]
    words += ["--tree", str(tree), "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["same_bytes", *words, *more])
    return same_bytes.main()


def test_times_are_left_out_by_place(tmp_path: Path) -> None:
    def document(seconds: float, **more: Any) -> str:
        return json.dumps(
            {"onnxq": "1", "seconds": seconds, "peak_memory_mb": seconds, "phases": {"plan": seconds},
             "engine": {"seconds": seconds, "kernels": 3}, "verdict": {"seconds": 5.0},
             "output": str(tmp_path / "out.onnx"), **more}
        )  # fmt: skip

    first = normalized(document(1.0), tmp_path)
    assert first == normalized(document(2.0), tmp_path)
    assert first != normalized(document(1.0, verdict={"seconds": 5.5}), tmp_path)  # an estimate
    assert first != normalized(document(1.0, phases={"solve": 1.0}), tmp_path)
    assert first != normalized(document(1.0, engine={"seconds": 1.0, "kernels": 4}), tmp_path)
    assert str(tmp_path) not in first
    assert json.loads(first)["output"] == "/out.onnx"
    assert normalized('{"b": 1, "a": 2}', tmp_path) != normalized('{"a": 2, "b": 1}', tmp_path)
    assert normalized(f"no JSON {tmp_path}", tmp_path) == "no JSON "


def test_what_differs_is_named() -> None:
    one = {"exit": [0], "files": {"a.onnx": "1", "a.toml": "2"}, "documents": ["3"], "seconds": 1}
    assert differences({"goal": one}, {"goal": {**one, "seconds": 9}}) == {}
    other = {"exit": [1], "files": {"a.onnx": "1", "b.toml": "2"}, "documents": ["4"], "seconds": 1}
    assert differences({"goal": one, "plan": one}, {"goal": other, "check": one}) == {
        "goal": ["exit [0] -> [1]", "a.toml", "b.toml", "document"],
        "plan": ["not run now"],
        "check": ["not run before"],
    }


def test_every_mode_is_a_command_of_onnxq() -> None:
    """Of all that the fence is to cover; the settings say of how many samples errors by layer are."""
    assert list(MODES) == ["default", "goal", "plan", "loud", "sanitize", "check", "analyze"]
    for mode in MODES.values():
        assert not mode.after or mode.after in MODES
        for words in mode.commands:
            assert accepted(f"onnxq {words.format(calib='c', goal=30)}", {}), words
    assert all("layer_samples = 2" in text for text in same_bytes.SETTINGS.values())


def test_the_models_are_there(tmp_path: Path) -> None:
    for name in same_bytes.SAMPLES:
        folder = tmp_path / name
        folder.mkdir()
        assert (folder / same_bytes.place(name, folder)).exists()
        assert (folder / "model.onnx").is_file()
    assert len(set(same_bytes.CORPUS)) == 30


def test_a_run_goes_on_and_compares(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, calls = tmp_path / "old.json", tmp_path / "new.json", tmp_path / "calls"
    assert ran(monkeypatch, tree, old) == 0
    assert calls.read_text().split() == ["quantize", "analyze"]
    known = json.loads(old.read_text("utf-8"))
    assert list(known["runs"]["squeeze"]["default"]["files"]) == ["default.onnx", "default.toml"]

    del known["runs"]["squeeze"]["analyze"]  # as if it had been interrupted
    old.write_text(json.dumps(known), "utf-8")
    assert ran(monkeypatch, tree, old) == 0
    assert calls.read_text().split()[2:] == ["quantize", "analyze"]  # which reads what the first one writes
    assert ran(monkeypatch, tree, old) == 0
    assert len(calls.read_text().split()) == 4

    assert ran(monkeypatch, tree, new, "--against", str(old)) == 0
    assert "all 2 runs" in capsys.readouterr().out

    (tree / "onnxq/__main__.py").write_text(f"GAIN = 2{FAKE}", "utf-8")
    with pytest.raises(SystemExit, match="other code"):
        ran(monkeypatch, tree, new)
    assert ran(monkeypatch, tree, tmp_path / "third.json", "--against", str(old)) == 1
    said = capsys.readouterr().out
    assert "2 of 2 runs differ" in said
    assert said.count("document") == 2


def test_what_does_not_end_is_not_written_down(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "onnxq/__main__.py").write_text("import time; time.sleep(60)", "utf-8")
    monkeypatch.setattr(same_bytes, "TIMEOUT", 0.2)
    assert ran(monkeypatch, tree, tmp_path / "out.json") == 1
    assert "within 0.2 s: squeeze, analyze" in capsys.readouterr().out
    assert not (tmp_path / "out.json").exists()


def test_only_the_code_of_the_tree_is_run(tree: Path, tmp_path: Path) -> None:
    before = code_hash(tree)
    (tree / "rules").mkdir()
    (tree / "rules/one.py").write_text("", "utf-8")
    assert code_hash(tree) != before
    (tmp_path / "onnxq").mkdir()
    (tmp_path / "onnxq/__init__.py").write_text("", "utf-8")
    with pytest.raises(SystemExit, match="would be run"):
        Runner(tree, tmp_path, {})  # the package of the folder comes first
