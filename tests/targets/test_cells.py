"""What `check` says of constructs of exported models, beside what sources say that each release takes."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.run import trt

TABLE = tomllib.loads(Path(__file__).with_name("constructs.toml").read_text("utf-8"))
CONSTRUCTS: dict[str, dict[str, Any]] = TABLE["constructs"]
RELEASES = ("8.6", "10.3", "10.13", "11.1", "11.5")
KNOWN = ("read", "documented", "thread", "compiled here")


def cells_of(name: str) -> dict[str, list[str]]:
    """By release the verdict and the name of the source."""
    cells = [cell.split() for cell in CONSTRUCTS[name]["cells"].split(";")]
    return {release: said for release, *said in cells}


def model_of(name: str) -> onnx.ModelProto:
    construct = CONSTRUCTS[name]
    inputs, _, rest = construct["graph"].partition("=>")
    outputs, _, body = rest.partition("{")
    constants = construct.get("constants")
    outputs += f"<{constants}>" if constants else ""
    text = f"""<ir_version: 10, opset_import: ["" : {construct["opset"]}, "local" : 1, "com.microsoft" : 1]>
        g ({inputs}) => {outputs} {{{body} {construct.get("functions", "")}"""
    return onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_check_says_what_the_sources_say(name: str, tmp_path: Path) -> None:
    onnx.save(model_of(name), tmp_path / "m.onnx")
    for release, (verdict, source) in cells_of(name).items():
        found = onnxq.check(
            tmp_path / "m.onnx", target=f"tensorrt-{release}", prove="never", compile=False
        ).findings
        errors = [one for one in found if one.severity == "error"]
        named = [one.reason for one in errors if one.node]
        if verdict == "refused":
            assert named, (name, release, source)
        elif verdict == "taken":
            assert named == [], (name, release, source)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed: pip install 'onnxq[trt]'")
@pytest.mark.parametrize("name", [name for name in CONSTRUCTS if cells_of(name)["11.5"][1] == "rtx"])
def test_cells_that_were_compiled_here_are_as_the_compiler_says(name: str, tmp_path: Path) -> None:
    onnx.save(model_of(name), tmp_path / "m.onnx")
    seen = onnxq.check(tmp_path / "m.onnx", target="tensorrt-11.5", prove="never")
    assert seen.engine is not None
    reasons = [one.reason for one in seen.findings]
    runs = seen.engine.original == "compiled" or any("optimization profile" in one for one in reasons)
    assert runs is (cells_of(name)["11.5"][0] == "taken"), reasons


def test_what_no_table_and_no_compiler_tells_is_not_known(tmp_path: Path) -> None:
    onnx.save(model_of("hard-swish"), tmp_path / "m.onnx")
    without = onnxq.check(tmp_path / "m.onnx", target="tensorrt-10.3")
    assert without.not_known.startswith("not known: whether TensorRT 10.3 takes the rest")
    assert without.not_known in str(without)
    assert "nothing is wrong" not in str(without)
    if trt.installed() is not None:
        assert onnxq.check(tmp_path / "m.onnx", target="tensorrt-11.5", compile=False).not_known == ""


def test_each_cell_has_a_source_and_few_are_not_known() -> None:
    verdicts = Counter(cell[0] for name in CONSTRUCTS for cell in cells_of(name).values())
    assert set(verdicts) <= {"taken", "refused", "unknown"}
    assert verdicts["unknown"] <= 0.05 * verdicts.total()
    assert len(CONSTRUCTS) >= 40
    for name in CONSTRUCTS:
        assert tuple(cells_of(name)) == RELEASES
        assert {cell[1] for cell in cells_of(name).values()} <= TABLE["sources"].keys()
    assert {kind for kind, _ in TABLE["sources"].values()} == {*KNOWN}
