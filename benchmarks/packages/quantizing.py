"""Quantizes a model with the onnxq that is first on the path.

    python -P quantizing.py MODEL SAMPLES OUTPUT OPTIONS

SAMPLES is a folder of .npz files, OPTIONS a JSON object of keywords. It writes the model, its report beside
it, and prints in JSON what onnxq says of it and the CPU seconds that quantizing took.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import onnxq


def main() -> None:
    model, samples, output, options = sys.argv[1:]
    given = [dict(np.load(path)) for path in sorted(Path(samples).glob("*.npz"))]
    start = sum(os.times()[:4])
    result = onnxq.quantize(model, given, **{"compile": False, **json.loads(options)})
    cpu = sum(os.times()[:4]) - start
    onnx.save(result.model, output)
    report: dict[str, Any] = result.report.to_dict()
    Path(output).with_suffix(".report.json").write_text(json.dumps(report, default=str), "utf-8")
    advice = result.advice
    said = {"answer": advice.answer, "because": advice.because, "cpu": cpu, "steps": _steps(report)}
    print("\n" + json.dumps(said))


def _steps(report: dict[str, Any]) -> dict[str, str]:
    """What came of each step of repair: its verdict, and why where it was not kept."""
    steps = (report.get("repair") or {}).get("steps", ())
    return {one["step"]: one["verdict"] if one["verdict"] == "kept" else f"{one['verdict']}: {one['why']}"
            for one in steps}  # fmt: skip


if __name__ == "__main__":
    main()
