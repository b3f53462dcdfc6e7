"""Builds wheel and sdist, and tries the wheel on every Python at hand, each in an environment of its own.

    python -m release.wheel [--trt]

Says no where the wheel is not the same when it is built again, or out of the sdist; where it does not
install, or does not quantize a model far from this folder. The environments are removed again; what was built
stays in `out/dist`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "out" / "dist"
NAMES = ("python3.11", "python3.12", "python3.13")
EPOCH = "315532800"
"""Seconds that files in the wheel are of: 1980, the first year of zip."""

LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "PIP_CONSTRAINT", "MYPYPATH")


def main() -> None:
    """Builds, compares, installs, runs; ends with exit code 1 where one of that fails."""
    read = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    read.add_argument("--trt", action="store_true", help="with NVIDIA's compiler")
    with_compiler = read.parse_args().trt
    shutil.rmtree(DIST, ignore_errors=True)
    built = {path.suffix: path for path in build(ROOT, DIST)}
    wheel, sdist = built[".whl"], built[".gz"]
    with tempfile.TemporaryDirectory() as folder:
        again = build(ROOT, Path(folder) / "again")[-1]
        with tarfile.open(sdist) as packed:
            packed.extractall(folder, filter="data")
        (unpacked,) = Path(folder).glob("onnxq-*")
        of_sdist = build(unpacked, Path(folder) / "of-sdist", "wheel")[-1]
        for other, what in ((again, "built again"), (of_sdist, "built of the sdist")):
            if digest(other) != digest(wheel):
                sys.exit(f"the wheel has other bytes when it is {what}")
    for path in (wheel, sdist):
        print(f"{path.name}  {path.stat().st_size / 1e6:.1f} MB  sha256 {digest(path)}")
    found = {name: python for name in NAMES if (python := at_hand(name))}
    if not found:
        sys.exit(f"there is none of {', '.join(NAMES)}")
    for python in found.values():
        tried(python, wheel, "[trt]" if with_compiler else "")
    if missing := [name for name in NAMES if name not in found]:
        print(f"not at hand, and not tried: {', '.join(missing)}")


def at_hand(name: str) -> str | None:
    """A Python of that name that runs, but for the one of this environment; None where there is none."""
    own = Path(sys.prefix).resolve() / "bin"
    for part in os.environ["PATH"].split(os.pathsep):
        python = shutil.which(name, path=part)
        works = (
            python and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
        )
        if python and works and Path(part).resolve() != own:
            return python
    return None


def build(tree: Path, place: Path, *targets: str) -> list[Path]:
    """Builds a tree's sdist and wheel, or one of them; the wheel comes last."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(place)]
    for target in targets:
        command += ["--target", target]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)
    return sorted(place.glob("onnxq-*"), key=lambda path: path.suffix == ".whl")


def tried(python: str, wheel: Path, extra: str) -> None:
    """Installs a wheel in a new environment, asks for its versions and quantizes a model with it."""
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([python, "-m", "venv", place / "venv"], check=True)
        site = size(place / "venv")
        pip = [place / "venv/bin/pip", "install", "--quiet", "--quiet", "--no-compile"]
        subprocess.run([*pip, f"{wheel}{extra}"], check=True, env=environment)
        print(
            f"{Path(python).name}: {(size(place / 'venv') - site) / 1e6:.0f} MB installed, without bytecode"
        )
        shutil.copytree(ROOT / "sample_models/digits", place / "work")
        onnxq = place / "venv/bin/onnxq"
        quantize = ["quantize", "digits.onnx", "--calib", "calib", "-o", "d.int8.onnx", "-q", "--strict"]
        for words in (["--version"], quantize if extra else quantize[:-1], ["check", "d.int8.onnx", "-q"]):
            subprocess.run([onnxq, *words], cwd=place / "work", env=environment, check=True)


def size(folder: Path) -> int:
    """The bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
