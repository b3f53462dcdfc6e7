"""The notebook of the documentation, run from the model to the page."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs/notebook.ipynb"

nbclient = pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat, which reads notebooks, is not installed")
pytest.importorskip("ipykernel", reason="ipykernel, in which notebooks run, is not installed")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells of code with their outputs; the kernel is that of this Python."""
    home = str(tmp_path_factory.mktemp("notebook"))
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": home, "JUPYTER_RUNTIME_DIR": home}
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(NOTEBOOK.parent)}}
    )
    client.execute(env=variables)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(cells: list[Any], start: str) -> list[Any]:
    (found,) = (cell.outputs for cell in cells if cell.source.startswith(start))
    return list(found)


def shown(cells: list[Any], start: str) -> Any:
    """What the value of a cell is shown as."""
    return outputs(cells, start)[-1]["data"]


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(
        not cell.outputs and cell.execution_count is None for cell in notebook.cells if "outputs" in cell
    )
    assert NOTEBOOK.stat().st_size < 10_000


def test_nothing_is_printed(cells: list[Any]) -> None:
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert kinds == {"display_data", "execute_result"}


def test_results_are_shown_as_tables(cells: list[Any]) -> None:
    made = shown(cells, "with onnxq.bar()")
    assert made["text/plain"].count("\n") <= 1
    assert re.search(r"\d dB \(-?[\d.]+ to [\d.]+\) about the mean", made["text/html"])
    assert "int8 is 100.0 % of the eligible MACs" in made["text/html"]
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
