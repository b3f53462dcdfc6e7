"""What a killed process left is removed by the next one, and nothing of a process that runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onnxq.base import interrupts, leftovers

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(leftovers.locks is None, reason="there are no locks here")

HOLDING = """
import sys, time
from pathlib import Path
from onnxq.base.interrupts import Folder
folder = Folder(Path(sys.argv[1]))
Path(folder.name, "weights").write_text("half")
Path(folder.name, "deep").mkdir()
Path(folder.name, "deep", "more").touch()
print(folder.name, flush=True)
time.sleep(60)
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a temporary folder, and that folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.wait()


def sweep(folder: Path) -> None:
    """What the next process does that makes a temporary folder there."""
    leftovers._looked.clear()
    with interrupts.Folder(folder):
        pass


def test_of_a_killed_process_nothing_stays(held: tuple[subprocess.Popen[str], Path], tmp_path: Path) -> None:
    process, folder = held
    (tmp_path / ".onnxq-notes").write_text("the user's own")
    (tmp_path / ".onnxq-mine").mkdir()
    mine = [".onnxq-mine", ".onnxq-notes"]
    sweep(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == [".onnxq-lock", "deep", "weights"]  # it runs
    process.kill()
    process.wait()
    assert folder.exists()
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == mine


def test_another_one_of_this_process_is_left_alone(tmp_path: Path) -> None:
    with interrupts.Folder(tmp_path) as name:
        sweep(tmp_path)
        assert os.listdir(name) == [".onnxq-lock"]
    assert os.listdir(tmp_path) == []


def test_a_removal_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock goes last: without one a folder is nobody's to remove."""
    folder = tmp_path / ".onnxq-old"
    (folder / "deep").mkdir(parents=True)
    leftovers.lock(str(folder))()

    def killed(path: object, **_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(leftovers.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            leftovers.delete(str(folder))
    assert (folder / ".onnxq-lock").exists()
    sweep(tmp_path)
    assert os.listdir(tmp_path) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    place, real = tmp_path / "place", tmp_path / "real"
    place.mkdir()
    real.mkdir()
    leftovers.lock(str(real))()
    (place / ".onnxq-link").symlink_to(real)
    sweep(place)
    assert (real / ".onnxq-lock").exists()
