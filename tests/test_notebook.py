"""The notebooks of the documentation, run from the model to the page, or to the figures."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path
from typing import Any

import pytest
from said import is_said

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs/notebook.ipynb"
WITH_FIGURES = {"find-the-layer.ipynb": 2, "compare-formats.ipynb": 1}
"""How many figures each of the others draws."""

nbclient = pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat, which reads notebooks, is not installed")
pytest.importorskip("ipykernel", reason="ipykernel, in which notebooks run, is not installed")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells of code with their outputs."""
    return executed(NOTEBOOK, tmp_path_factory.mktemp("notebook"))


def executed(path: Path, home: Path) -> list[Any]:
    """The cells of code of a notebook with their outputs; the kernel is that of this Python."""
    places = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    variables = {
        **os.environ, "PYTHONPATH": places, "IPYTHONDIR": str(home), "JUPYTER_RUNTIME_DIR": str(home),
        "MPLCONFIGDIR": str(home),
    }  # fmt: skip
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute(env=variables)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(cells: list[Any], start: str) -> list[Any]:
    (found,) = (cell.outputs for cell in cells if cell.source.startswith(start))
    return list(found)


def shown(cells: list[Any], start: str) -> Any:
    """What the value of a cell is shown as."""
    return outputs(cells, start)[-1]["data"]


def test_there_are_no_others() -> None:
    assert {path.name for path in NOTEBOOK.parent.glob("*.ipynb")} == {NOTEBOOK.name, *WITH_FIGURES}


@pytest.mark.parametrize("name", [NOTEBOOK.name, *WITH_FIGURES])
def test_it_is_kept_without_outputs(name: str) -> None:
    path = NOTEBOOK.with_name(name)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(
        not cell.outputs and cell.execution_count is None for cell in notebook.cells if "outputs" in cell
    )
    assert path.stat().st_size < 10_000


def test_nothing_is_printed(cells: list[Any]) -> None:
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert kinds == {"display_data", "execute_result"}


def test_results_are_shown_as_tables(cells: list[Any]) -> None:
    made = shown(cells, "with onnxq.bar()")
    assert made["text/plain"].count("\n") <= 1
    assert re.search(r"\d dB \(-?[\d.]+ to [\d.]+\) about the mean", made["text/html"])
    assert is_said(made["text/html"], "share-of-work", format="int8", percent="100.0")
    assert "<td>/head/Gemm</td><td>Gemm</td>" in made["text/html"]
    assert "<th>layer</th>" in shown(cells, "errors =")["text/html"]
    assert "128 images" in shown(cells, "onnxq.look")["text/html"]
    assert "page " in shown(cells, "onnxq.report")["text/html"]


def test_a_bar_is_shown_and_written_anew(cells: list[Any]) -> None:
    """One output, which the last step has overwritten."""
    bars = [one for one in outputs(cells, "with onnxq.bar()") if one.output_type == "display_data"]
    assert len(bars) == 1
    assert bars[0]["data"]["text/plain"]
    assert bars[0]["data"]["text/html"]


def test_the_page_is_written(cells: list[Any]) -> None:
    text = shown(cells, "onnxq.report")["text/plain"]
    page = Path(text.partition("page ")[2].partition(".html")[0] + ".html")
    assert page.is_file()
    assert "<script" in page.read_text("utf-8")


@pytest.fixture(scope="module", params=WITH_FIGURES)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Any]]:
    """A notebook with figures, by its name, and its cells."""
    pytest.importorskip("matplotlib", reason="matplotlib, which draws the figures, is not installed")
    name = str(request.param)
    return name, executed(NOTEBOOK.with_name(name), tmp_path_factory.mktemp("figures"))


def test_figures_are_drawn_and_nothing_is_printed(drawn: tuple[str, list[Any]]) -> None:
    name, cells = drawn
    listed = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in listed} <= {"display_data", "execute_result"}
    figures = [output for output in listed if "image/png" in output.get("data", {})]
    assert len(figures) >= WITH_FIGURES[name]


def test_what_the_notebooks_find(drawn: tuple[str, list[Any]]) -> None:
    name, cells = drawn
    if name == "find-the-layer.ipynb":
        before, after = ast.literal_eval(shown(cells, "kept =")["text/plain"])
        assert after > before  # the layer that is named first is one
        assert float(shown(cells, "repaired =")["text/plain"]) > before
    else:
        kept = ast.literal_eval(shown(cells, "[\n    (name")["text/plain"])
        assert [row[0] for row in kept] == ["int8", "fp8", "int8,fp8"]
        assert all(0.8 <= top1 <= 1 and size > 10_000 for _, top1, size in kept)
        assert ast.literal_eval(shown(cells, "[(one.node")["text/plain"])
