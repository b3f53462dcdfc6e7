"""The blocks of each page, run in order in a folder that holds what it starts from: `make docs-test`."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation.blocks import PAGES, ROOT, blocks, start_of
from documentation.folder import fill, run_block

from onnxq.run import trt

WITH_CODE = [page for page in PAGES if any(one.language in ("console", "python") for one in blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
@pytest.mark.skipif(trt.installed() is None, reason="NVIDIA's compiler is not installed")
def test_the_blocks_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    fill(folder, start_of(page.read_text("utf-8")))
    for block in blocks(page):
        run_block(folder, block)
