"""Reproducers hold parts of the user's model: they are the user's alone, and not too many."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onnxq.base import remarks
from onnxq.rewrite import reproducer
from onnxq.rewrite.reproducer import new_folder

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")


def modes(*folders: Path) -> set[int]:
    return {folder.stat().st_mode & 0o777 for folder in folders}


def test_nobody_else_may_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducer.tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        made = new_folder(reproducer.place(), "one")
    finally:
        os.umask(before)
    assert made.parent == tmp_path / f"onnxq-reproducers-{os.getuid()}"
    assert modes(made, made.parent) == {0o700}


@pytest.mark.parametrize("what", ["a link", "a file", "open to others", "another user's"])
def test_what_is_not_the_users_alone_is_not_written_to(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if what == "a link":
        place.symlink_to(elsewhere)
    elif what == "a file":
        place.touch()
    else:
        place.mkdir(mode=0o700)
    if what == "open to others":
        place.chmod(0o777)
    if what == "another user's":
        monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    before = place.lstat()
    one = new_folder(place, "one")
    assert one.parent.parent == tmp_path
    assert one.parent not in (place, elsewhere)
    assert modes(one, one.parent) == {0o700}
    assert (list(elsewhere.iterdir()), place.lstat().st_mtime) == ([], before.st_mtime)
    assert new_folder(place, "two").parent == one.parent


def test_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproducer, "MOST", 3)
    monkeypatch.setattr(reproducer, "MOST_BYTES", 100)
    place = tmp_path / "place"
    with remarks.heard() as heard:
        for number in range(3):
            os.utime(new_folder(place, str(number)), (number, number))
        assert not heard
        new_folder(place, "3")
        assert sorted(os.listdir(place)) == ["1", "2", "3"]
        assert "holds 3 at most" in next(iter(heard))
        (place / "2" / "before.onnx").write_bytes(b"0" * 101)
        os.utime(place / "2", (0, 0))
        (place / "1").rmdir()
        new_folder(place, "4")
    assert sorted(os.listdir(place)) == ["3", "4"]
