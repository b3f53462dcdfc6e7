"""The benchmark of repairs: what a tool makes of a construct, and a tool that dies, are told apart."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx
import pytest
from constructs import constructs
from constructs.build import content

from benchmarks import surgery
from onnxq.run import trt


@pytest.fixture(autouse=True)
def own_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polygraphy is installed here as well."""
    monkeypatch.setenv("ONNXQ_SURGEONS", sys.executable)
    surgery._peer.cache_clear()


def test_a_peer_repairs_one_model_after_another(tmp_path: Path) -> None:
    peer = surgery.Peer("polygraphy")
    for number, key in enumerate(("dtypes/bool_tile", "dtypes/bool_expand")):
        before, after = tmp_path / "in.onnx", tmp_path / f"out{number}.onnx"
        onnx.save(constructs()[key].model, before)
        answer = peer.ask(before, after)
        assert answer["error"] == ""
        assert answer["seconds"] > 0
        assert [node.op_type for node in onnx.load(after).graph.node] == [
            node.op_type for node in constructs()[key].model.graph.node
        ]
    first = peer.process
    before.write_bytes(b"no model")
    assert peer.ask(before, after)["error"]
    assert peer.process is first  # an error is no death
    assert first is not None
    first.kill()
    first.wait()
    onnx.save(constructs()["dtypes/bool_tile"].model, before)
    assert peer.ask(before, after)["error"] == ""
    assert peer.process is not first
    peer.process.kill()


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed: pip install 'onnxq[trt]'")
def test_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert surgery.repair("polygraphy scatter/nd_add", None)["outcome"] == "rejected"
    assert surgery.repair("polygraphy dtypes/bool_tile", None)["outcome"] == "kept"
    other = constructs()["dtypes/bool_expand"].model

    class Wrong:
        def ask(self, model: Path, output: Path) -> dict[str, object]:
            onnx.save(other, output)
            return {"seconds": 0.0, "error": ""}

    monkeypatch.setattr(surgery, "_peer", lambda tool: Wrong())
    assert surgery.repair("polygraphy dtypes/bool_tile", None)["outcome"] == "wrong"


def test_names_and_descriptions_are_no_content() -> None:
    model = constructs()["scatter/nd_add"].model
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.producer_name = "another"
    other.graph.node[0].name = "another"
    assert content(other) == content(model)
    other.graph.node[0].attribute[0].s = b"mul"
    assert content(other) != content(model)
