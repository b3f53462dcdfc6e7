"""A bundle of the sample model, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.measuring.machine import bundled, run

__all__ = ["run"]


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "b"
    bundled(folder, target="tensorrt-11.1")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "b"))
