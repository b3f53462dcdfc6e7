"""The site is built without a warning, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documentation.blocks import OUTSIDE, PAGES, ROOT

pytest.importorskip("mkdocs", reason="mkdocs, which builds the site, is not installed")
pytest.importorskip("material", reason="mkdocs-material, the theme of the site, is not installed")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    missing = [
        page
        for page in PAGES[len(OUTSIDE) :]
        if not (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists()
    ]
    assert missing == []
    assert "onnxq makes an exported ONNX model ready" in (site / "index.html").read_text("utf-8")
    assert not (site / "_site").exists()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(?:https?:)?//[^>]*>|<link[^>]*rel=\"?stylesheet[^>]*//[^>]*>"
    )
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    found = {page.name: match[0] for page in pages if (match := loads.search(page.read_text("utf-8")))}
    assert found == {}
    styles = "".join(path.read_text("utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*;", styles) == []
    assert loads.search('<script src="https://unpkg.com/x"></script>')
