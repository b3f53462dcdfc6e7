"""The transcripts beside this file: commands with their output, as users see it in 80 columns.

A number that varies from machine to machine is `<n>` there. Write them anew with
`ONNXQ_GOLDEN=1 pytest tests/cli/test_transcripts.py`, and read the difference.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from command import ROOT, SAMPLES, run

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.md"))
_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
_VARIES = (
    (re.compile(r"tensorrt-rtx \d[\d.]*"), "tensorrt-rtx <n>"),
    (re.compile(r"NVIDIA's compiler was .*(\n {15}.*)*"), "NVIDIA's compiler was <asked, or why not>"),
    (re.compile(r"\b[\d.]+ [kM]?B\b"), "<n> B"),
    (re.compile(r"\b[\d.]+(?=\n +[kM]?B\b)"), "<n>"),
    (re.compile(re.escape(str(ROOT))), "<onnxq>"),
    (re.compile(r"(?<![\d.])\d+\.\d+(e[+-]\d+)?(?= (s|dB|of)\b|,|$)", re.MULTILINE), "<n>"),
    (re.compile(r"(?<= of )\d+\.\d+"), "<n>"),
    (re.compile(r"(?<=\()-?\d+\.\d(\s+to\s+)-?\d+\.\d(?=\))"), r"<n>\1<n>"),
    (re.compile(r"(?<=\.repair\.)[0-9a-f]{16}(?=\.npz)"), "<hash>"),
    (re.compile(r"\b[0-9a-f]{12} -> [0-9a-f]{12}\b"), "<hash> -> <hash>"),
    (re.compile(r"(?<!TensorRT )\b[\d,]+(?=\s+(codes|runs)\b)"), "<n>"),
    (re.compile(r"-?\d+%(?=\s+of\s+the\s+noise)"), "<n>%"),
    (re.compile(r"\d+(?=\s+samples,\s+cross-validated;)"), "<n>"),
)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_transcript(transcript: Path, tmp_path: Path) -> None:
    text = transcript.read_text("utf-8")
    if "<!-- needs NVIDIA's compiler -->" in text:
        pytest.importorskip("tensorrt_rtx")
    (tmp_path / "sample_models").symlink_to(SAMPLES)
    (tmp_path / "skip.toml").write_text('[repair]\nskip = "squeeze_to_slice"\n')
    now = _BLOCK.sub(lambda block: _play(block.group(), tmp_path), text)
    if os.environ.get("ONNXQ_GOLDEN"):
        transcript.write_text(now, "utf-8")
    assert now == text


def _play(block: str, folder: Path) -> str:
    """The block with the output that its commands have now."""
    text = ""
    for command in re.findall(r"^\$ onnxq (.*)$", block, re.MULTILINE):
        ran = run(folder, *shlex.split(command))
        errors = "".join(f"{line}\n" for line in ran.err.splitlines() if not line.startswith("onnxq: "))
        output = errors + ran.out + (f"[exit code {ran.answered}]\n" if ran.answered else "")
        for pattern, replacement in _VARIES:
            output = pattern.sub(replacement, output)
        text += f"$ onnxq {command}\n{output}"
    return text
