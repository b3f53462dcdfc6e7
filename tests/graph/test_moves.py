"""One list of operators that only move values, and that they do nothing else."""

from __future__ import annotations

import ast

import numpy as np
import onnx.parser
import pytest
from trees import TREES

from onnxq.graph.moves import MOVES, REARRANGES
from onnxq.run import ort

BODIES = {
    "Reshape": "Reshape (x, flat)",
    "Flatten": "Flatten (x)",
    "Squeeze": "Squeeze (x, first)",
    "Unsqueeze": "Unsqueeze (x, first)",
    "DepthToSpace": "DepthToSpace <blocksize = 2> (x)",
    "SpaceToDepth": "SpaceToDepth <blocksize = 2> (x)",
    "Slice": "Slice (x, first, two, three)",
    "Split": "Split <axis = 1, num_outputs = 2> (x)",
    "Gather": "Gather <axis = 1> (x, two)",
    "Expand": "Expand (x, sizes)",
    "Tile": "Tile (x, sizes)",
    "MaxPool": "MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)",
}


@pytest.mark.parametrize("op", MOVES)
def test_its_output_has_values_of_its_input_only(op: str) -> None:
    outs = "y, z" if op == "Split" else "y"
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[1, 4, 6, 6] x) => ({outs}) <int64[1] flat = {{-1}}, int64[1] first = {{0}},
            int64[1] two = {{2}}, int64[1] three = {{3}}, int64[4] sizes = {{2, 1, 1, 1}}> {{
            {outs} = {BODIES.get(op, f"{op} (x)")} }}"""
    x = np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype(np.float32) - 3  # no zero of a padding
    y = np.concatenate([out.ravel() for out in ort.load(onnx.parser.parse_model(text)).run({"x": x})])
    assert np.isin(y, x).all()
    if op in REARRANGES:
        np.testing.assert_array_equal(np.sort(y), np.sort(x.ravel()))


def test_there_is_no_other_list() -> None:
    found = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Tuple):
                names = {part.value for part in node.elts if isinstance(part, ast.Constant)}
                found += [path.name] if {"Reshape", "Transpose"} <= names else []
    assert found == ["moves.py"]
