"""A folder as a page starts from, and commands as readers type them there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
from documentation.blocks import ROOT, Block

SAMPLES = ROOT / "sample_models"
_IMAGES = 24
_SCORE = """
import numpy as np

with np.load("sample_models/digits/test.npz") as test:
    images, labels = test["image"][:300], test["labels"][:300]


def top1(model, part):
    return 100.0 * (model({"image": images})["logits"].argmax(1) == labels)
"""


def fill(folder: Path, name: str) -> None:
    """Puts into a folder what a page starts from.

    Args:
        folder: an empty one.
        name: `digits`: model.onnx, some of its images in images/ and data/, and score.py, which scores it;
            `stereo`: model.onnx and images/, of the sample of two images; `nothing`. The sample models
            are always there.
    """
    (folder / "sample_models").symlink_to(SAMPLES)
    if name == "digits":
        shutil.copy(SAMPLES / "digits" / "digits.onnx", folder / "model.onnx")
        for target in ("images", "data"):
            (folder / target).mkdir()
            for path in sorted((SAMPLES / "digits" / "calib").glob("*.png"))[:_IMAGES]:
                shutil.copy(path, folder / target)
        (folder / "score.py").write_text(_SCORE, "utf-8")
    elif name == "stereo":
        shutil.copy(SAMPLES / "stereo" / "stereo.onnx", folder / "model.onnx")
        (folder / "images").mkdir()
        with np.load(SAMPLES / "stereo" / "calib.npz") as arrays:
            for side in ("left", "right"):
                np.save(folder / "images" / side, arrays[side])
    elif name != "nothing":
        raise ValueError(f"a page starts from {name!r}, and that is not known")


def environment(folder: Path) -> dict[str, str]:
    """The environment of a reader who has onnxq installed, and a browser that shows nothing."""
    programs = folder.parent / f"{folder.name}.bin"
    if not programs.exists():
        programs.mkdir()
        for name, arguments in (("onnxq", "-m onnxq "), ("python", "")):
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
            (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    own = {"PATH": path, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "TERM": "dumb", "BROWSER": "true"}
    return {**os.environ, **own}


def typed(folder: Path, command: str | list[str]) -> tuple[int, str]:
    """Runs a line of the shell in a folder, or a program; its exit code, and what it said."""
    words = ["bash", "-c", command] if isinstance(command, str) else command
    done = subprocess.run(
        words, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout + done.stderr


def run_block(folder: Path, block: Block) -> int:
    """Runs a block as its page says; how many things of it were run.

    Raises:
        AssertionError: something ended otherwise than it is to.
    """
    if "before" in block.said:
        code, said = typed(folder, block.said["before"])
        assert code == 0, f"{block.place}: {block.said['before']}\n{said}"
    if "not run" in block.said:
        return 0
    if "file" in block.said:
        (folder / block.said["file"]).write_text(block.text, "utf-8")
        return 1
    lines: list[str | list[str]] = []
    if block.language == "console":
        lines += [one for one in block.commands if one not in [left for left, _ in block.left_out()]]
    elif block.language == "python":
        lines.append([sys.executable, "-c", block.text])
    if not lines:
        return 0
    codes = [int(code) for code in block.said.get("exit code", "0").split()]
    expected = [*[0] * (len(lines) - len(codes)), *codes]
    for line, wanted in zip(lines, expected, strict=True):
        code, said = typed(folder, line)
        assert code == wanted, f"{block.place}: {line} ended with {code}, not {wanted}\n{said}"
    return len(lines)


def read_toml(block: Block, folder: Path) -> None:
    """Reads a block of TOML by what reads such files: a target's table, or settings."""
    from onnxq.options.config import load_config
    from onnxq.targets import load_target

    keys = tomllib.loads(block.text)
    file = folder / "block.toml"
    file.write_text(block.text, "utf-8")
    if "part" in block.said:
        return
    if "like" in keys:
        load_target(str(file))
    else:
        load_config(file)
