"""Flags of the command line that somebody gives as keywords: what to give in their place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from onnxq.base import annotated
from onnxq.base.errors import nearest
from onnxq.options.option import FORMER, NOT, read_options
from onnxq.options.settings import GROUPS, ImageOptions

F = TypeVar("F", bound=Callable[..., Any])

_KEYWORDS = {
    "calib": "data=", "from": "start=", "to": "end=", "check": "checks=", "op": "ops=", "match": "layers=",
    "threshold": "thresholds=", "no_channels": "channels=False", "no_isolated": "isolated=False",
}  # fmt: skip
"""Flags of single verbs whose keyword has another name."""

_SAVE = "files are written by .save(PATH) of what it returns, where that has files"
_SCREEN = "it is of the screen, and nothing is printed: look at what it returns"
_SIZES = "it is of what decides by sizes: onnxq.describe, onnxq.plan and onnxq.quantize"
_ELSEWHERE = {
    "batch": _SIZES,
    "profile": _SIZES,
    "profile_weight": _SIZES,
    "output": _SAVE,
    "force": _SAVE,
    "report": "what it returns is the report",
    "csv": "what it returns has the rows, as dataclasses",
    "deploy": "give .save(PATH, deploy=...) of what it returns",
    "no_page": "give .save(PATH, page=False) of what it returns",
    "json": "what it returns is that document",
    "as": "give nothing: .to_dict(), .sarif() and .annotations() of what it returns are the forms",
    "quiet": "nothing is printed; observe= is told the steps",
    "verbose": "an exception has its traceback",
    "config": "only the command line reads onnxq.toml: give its options as keywords",
    "budget": "it is of the command line, onnxq quantize --budget; result.advice says what to try",
    "strict": "there is no exit code: look at what it returns",
    "exit_zero": "there is no exit code: look at what it returns",
    "all": _SCREEN,
    "match": _SCREEN,
    "op": _SCREEN,
    "nodes": "call onnxq.inspect",
    "tensor": "call onnxq.describe_tensor",
    "dot": "call onnxq.draw with what this returns, or onnxq.inspect",
    "merge": "call onnxq.merge_stats",
    "target": "it does the same for each target",
    "message": "call onnxq.explain_message",
    "data_loader_script": "give data= what the script's function yields",
}
"""Flags of which there is no keyword: what does it in Python."""


def instead(name: str, keywords: Collection[str]) -> str:
    """What to give in the place of a keyword that a function does not have, "" where nothing is known.

    Args:
        name: the keyword that was given.
        keywords: those that the function has.
    """
    for group in GROUPS:
        for field, said in read_options(group).items():
            if name not in (flag.lstrip("-").replace("-", "_") for flag in said.flag):
                continue
            if field in keywords:
                return f"give {field}{'=False' if said.kind is NOT else '='}"
            if group is ImageOptions and "images" in keywords:
                return f"give images={{{field!r}: ...}}"
    given = _KEYWORDS.get(name) or f"{FORMER.get(name, '')}="
    if given.partition("=")[0] in keywords:
        return f"give {given}"
    return _ELSEWHERE.get(name) or nearest(name, keywords)


def tells_keywords(function: F, hints: Mapping[str, Any] | None = None) -> F:
    """Has the errors of keywords say which one to give, and of what kind.

    A TypeError is that of a name which is not in the function's signature, a UserError that of a value.

    Args:
        function: the function.
        hints: what keywords of its signature take that are not its own.
    """
    signature = inspect.signature(function)
    known = signature.parameters

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in known:
                hint = instead(name, known)
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument {name!r}"
                    f"{f'; {hint}' if hint else ''}"
                )
        given = signature.bind_partial(*args, **keywords).arguments
        annotated.check(given, {**annotated.hints_of(function), **(hints or {})})
        return function(*args, **keywords)

    return call  # type: ignore[return-value]
