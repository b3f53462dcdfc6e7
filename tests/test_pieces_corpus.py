"""Real models cut in the middle: the chain equals the whole (in the folder that ONNXQ_CORPUS names)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_corpus import CORPUS, MANIFEST, SLOW, TYPES, samples

import onnxq
from onnxq.graph.model import Model

ENTRIES = [
    entry
    for entry in json.loads(MANIFEST.read_text("utf-8"))
    if entry["onnxruntime"] == "ok"
    and entry["name"] not in SLOW
    and 5 < entry["nodes"] < 200
    and entry["bytes"] < 1_500_000
    and all(info["dtype"] in TYPES for info in entry["inputs"])
]


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["name"] for entry in ENTRIES])
def test_cut_in_the_middle(entry: dict[str, Any], tmp_path: Path) -> None:
    path = CORPUS / "models" / f"{entry['name']}.onnx"
    model = Model.open(path)
    middle = model.graph.nodes[len(model.graph.nodes) // 2].outputs[0].name
    operators = {node.op for node in model.graph.nodes if not node.domain}
    often = "Sigmoid" if "Sigmoid" in operators else "Reshape" if "Reshape" in operators else None
    *_, manifest = onnxq.split(path, at=[middle], at_op=[often] if often else []).save(tmp_path / "cut")
    found = onnxq.run_pieces(manifest, samples(entry, 2))
    assert found.samples == 2
    assert found.notes == () if found.within else "float16" in found.notes[0]
