"""The steps of a run in words, as progress names them; observers in Python are told the short names."""

from __future__ import annotations

from collections.abc import Mapping

_WORDS: Mapping[str, str] = {
    "advise": "looking for what would help",
    "body": "choosing the type of what is not quantized",
    "calibrate": "measuring the ranges of tensors",
    "causes": "looking for causes",
    "choose": "choosing scales",
    "compare": "comparing outputs",
    "compile": "compiling with TensorRT",
    "confirm": "comparing the outputs again, on samples kept apart",
    "data": "looking at the data",
    "pairs": "measuring what else could be done with the file's pairs",
    "goal": "looking for what to leave in float",
    "insert": "inserting the Q/DQ pairs",
    "inspect": "looking at the model",
    "layers": "comparing layer by layer",
    "load": "reading the model",
    "loud": "looking for what makes most of the error",
    "memory": "measuring memory",
    "open": "opening the files",
    "page": "writing the page",
    "parse": "asking TensorRT which nodes it takes",
    "plan": "choosing the layers to quantize",
    "read": "reading samples",
    "repair": "repairing the accuracy",
    "rules": "applying rules",
    "run": "running the model",
    "sanitize": "repairing the graph",
    "score": "asking your function for its score",
    "search": "searching",
    "sizes": "choosing the sizes to decide for",
    "sources": "measuring the error that each layer makes",
    "statistics": "measuring tensors",
    "upgrade": "raising the opset",
    "verify": "comparing the outputs, on samples kept apart",
    "weights": "comparing weights",
    "write": "writing the model, which is final",
}


def in_words(step: str) -> str:
    """A step, and the part of it that it is at, in words; what is not known stays as it is.

    `repair: bias` is "repairing the accuracy: bias".
    """
    name, colon, part = step.partition(":")
    return f"{_WORDS.get(name, name)}{colon}{part}"
