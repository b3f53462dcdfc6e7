"""The keywords of the functions that take options; `call_options.pyi` says to type checkers which these are.

`make options` writes it, of `onnxq.options.verbs`. When the code runs, nobody asks: a function's signature
tells of them (`keywords.py`).
"""

from __future__ import annotations


def __getattr__(name: str) -> type:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return type(name, (dict,), {})
