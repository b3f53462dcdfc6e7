"""What a user sees of a file of scikit-learn, of named dimensions, and where no output can be judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.base.shown import cut
from onnxq.cli.pages.check import check_page
from onnxq.cli.pages.words import assumption_words
from onnxq.graph.types import shape_text
from onnxq.inspection.checking import EngineTried
from onnxq.rewrite.changes import Assumption
from onnxq.targets import NAMES, load_target

SKLEARN = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (float[N, 4] x) => (float[N, 4] y) {
        [one] a = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)
        [two] y = ai.onnx.ml.Normalizer <norm = "L2"> (a) }"""


def test_a_command_is_printed_once(tmp_path: Path, onnxq) -> None:
    onnx.save(onnx.parser.parse_model(SKLEARN), tmp_path / "net.onnx")
    ran = onnxq("check", "net.onnx", "--no-engine")
    said = [line for line in ran.out.splitlines() if line.startswith("  Command")]
    assert len(said) == len(set(said)) > 0, ran.out
    assert ran.out.count("  Error") > len(said)


@pytest.mark.parametrize("name", NAMES)
def test_each_target_says_how_zipmap_is_left_out(name: str) -> None:
    assert "'zipmap': False" in load_target(name).advice["ZipMap"]


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((1, 3, 8), "1x3x8"), (("N", 3, None), "Nx3x?"), ((), "scalar"), (None, "unknown"),
        (("batch", 4, "past + new"), "batch x 4 x past + new"),
    ],
)  # fmt: skip
def test_dimensions_with_long_names_stand_apart(
    shape: tuple[int | str | None, ...] | None, text: str
) -> None:
    assert shape_text(shape) == text


def test_a_net_with_nothing_for_int8_says_so(tmp_path: Path, onnxq) -> None:
    """One row has nothing to share the reading of a weight with."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16] x) => (float[1, 8] y) <float[16, 8] w> { y = MatMul (x, w) }""")
    weights = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(1).standard_normal((40, 16)).astype(np.float32))
    ran = onnxq("quantize", "net.onnx", "--calib", "x.npy", "--no-engine", "-o", "q.onnx")
    assert "; 1 layer in float" in " ".join(ran.out.split())


def test_a_detector_that_finds_nothing_says_why_there_is_no_figure(tmp_path: Path, onnxq) -> None:
    """The line "Accuracy" is not left with the samples alone."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16] x) => (float[1, 6, 10] y)
        <float[16, 60] w, float[1] nil = {0.0}, int64[3] shape = {1, 6, 10}> {
            a = MatMul (x, w)  b = Mul (a, nil)  y = Reshape (b, shape) }""")
    weights = np.random.default_rng(0).standard_normal((16, 60)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, tmp_path / "net.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(1).standard_normal((40, 16)).astype(np.float32))
    ran = onnxq(
        "quantize", "net.onnx", "--calib", "x.npy", "--no-engine", "--task", "detect:yolov8", "-o", "q.onnx"
    )
    (line,) = [line for line in ran.out.splitlines() if line.startswith("  Accuracy")]
    assert "no figure of y" in line, ran.out + ran.err


def test_a_reason_is_told_once(tmp_path: Path, onnxq) -> None:
    """It was the answer, its cause, and a section."""
    text = '<ir_version: 8, opset_import: ["" : 17]> net (float[1, 4] x) => (float[1, 4] y) '
    onnx.save(
        onnx.parser.parse_model(text + "{ a = Relu (x)  [n] y = nan_to_num (a) }"), tmp_path / "net.onnx"
    )
    ran = onnxq("sanitize", "net.onnx", "-o", "out.onnx")
    assert " ".join(ran.out.split()).count("nan_to_num is no operator") == 1
    assert ran.out.count("no importer for") == 1


@pytest.mark.parametrize(
    ("warnings", "said"),
    [((), "0 findings"), (("w",), "0 findings; the compiler gives 1 warning"), (("v", "w"), "2 warnings")],
)
def test_no_findings_are_not_said_above_a_warning_of_the_compiler(
    tmp_path: Path, warnings: tuple[str, ...], said: str
) -> None:
    model = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    onnx.save(onnx.parser.parse_model(model), tmp_path / "net.onnx")
    found = onnxq.check(tmp_path / "net.onnx", compile=False)
    page = check_page(replace(found, engine=EngineTried(89, "compiled", "compiled", {}, warnings, {})))
    assert page.lines[0].text.endswith(said)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (40, "a sentence of a size; and what follows"),
        (30, "a sentence of a size ..."),
        (20, "a sentence of a..."),
    ],
)
def test_a_sentence_ends_where_a_part_of_it_does(width: int, text: str) -> None:
    assert cut("a sentence of a size; and what follows", width) == text
    assert len(text) <= width


@pytest.mark.parametrize(
    ("assumption", "said"),
    [
        (Assumption("--assume", "N", 1, "stated"), "N=1: as --assume states"),
        (Assumption("proved", "N", 1, "Conv needs 4 dimensions"), "N=1: Conv needs 4 dimensions"),
    ],
)
def test_what_is_stated_is_not_called_assumed(assumption: Assumption, said: str) -> None:
    assert assumption_words(assumption) == said
