"""Repairs models with another tool, one after another; run by the Python of an environment that has it.

    python peer_surgeons.py TOOL

Reads lines `INPUT<tab>OUTPUT`, paths of models, and answers each with a line of JSON: the seconds that the
tool itself took, and the error where it made no model.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Callable

import onnx

MODULES = {"polygraphy": "polygraphy.tools", "onnxslim": "onnxslim", "onnxsim": "onnxsim"}


def polygraphy(model: str, output: str) -> None:
    """`polygraphy surgeon sanitize --fold-constants`."""
    from polygraphy import tools

    sys.argv = ["polygraphy", "surgeon", "sanitize", model, "--fold-constants", "-o", output]
    try:
        status = tools.main()
    except SystemExit as end:
        status = end.code
    if status:
        raise RuntimeError(f"polygraphy ended with {status}")


def onnxslim(model: str, output: str) -> None:
    """`onnxslim INPUT OUTPUT`."""
    import onnxslim as tool

    onnx.save(tool.slim(onnx.load(model)), output)


def onnxsim(model: str, output: str) -> None:
    """`onnxsim INPUT OUTPUT`, with its own check of the result."""
    import onnxsim as tool

    simple, equal = tool.simplify(onnx.load(model))
    if not equal:
        raise RuntimeError("onnxsim's own check says that the result differs")
    onnx.save(simple, output)


TOOLS: dict[str, Callable[[str, str], None]] = {
    "polygraphy": polygraphy,
    "onnxslim": onnxslim,
    "onnxsim": onnxsim,
}


def main() -> None:
    tool = sys.argv[1]
    importlib.import_module(MODULES[tool])  # loading is not its work
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the tool prints is no answer
    for line in sys.stdin:
        paths = line.rstrip("\n").split("\t")
        answer: dict[str, object] = {"error": ""}
        start = time.perf_counter()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                TOOLS[tool](*paths)
        except (Exception, SystemExit) as error:
            answer["error"] = f"{type(error).__name__}: {str(error)[:300]}"
        answer["seconds"] = time.perf_counter() - start
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
