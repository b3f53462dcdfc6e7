"""A mutant in a process of its own: it may crash onnxruntime, or never end."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.mutants.answers import told
from onnxq.rule.api import (
    Rule,
)

_Item = TypeVar("_Item")
_SECONDS = 20  # a mutant that takes longer does not end


def in_child(folder: Path, rule: Rule, text: str, look: Callable[[Rule], object]) -> Any:
    """What is seen of a rule's text in a process of its own; None where it fails, crashes or does not end."""
    (folder / f"{rule.id}.py").write_text(text, "utf-8")
    answer = folder.with_name(folder.name + ".answer")
    child = os.fork()
    if child:
        ended = os.waitpid(child, 0)[1] == 0
        return json.loads(answer.read_text("utf-8")) if ended else None
    try:
        signal.alarm(_SECONDS)
        _be_quiet()
        answer.write_text(json.dumps(look(_loaded(folder)) or 0), "utf-8")
        os._exit(0)
    except BaseException:
        os._exit(1)


def _be_quiet() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    faulthandler.disable()  # pytest's has the terminal open


def uncrashed(items: Sequence[_Item], look: Callable[[_Item], object]) -> list[_Item]:
    """Those of several things at which a process can look and live on; an exception is no crash."""
    found: list[_Item] = []
    rest = list(items)
    while rest:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _be_quiet()
            for item in rest:
                signal.alarm(_SECONDS)
                with contextlib.suppress(Exception):
                    look(item)
                os.write(writer, b".")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as told_of:
            count = len(told_of.read())
        os.waitpid(child, 0)
        found += rest[:count]
        rest = rest[count + 1 :]  # without the one to blame
    return found


OTHERS: list[bool] = []


def _both(old: Callable[[], Any], new: Callable[[], Any]) -> Any:
    """The old value; notes whether the new one is another."""
    value = old()
    if not OTHERS:
        try:
            other = told(new(), {})
        except Exception:
            other = "raised"
        if other != told(value, {}):
            OTHERS.append(True)
    return value


def _loaded(folder: Path) -> Rule:
    from onnxq.rule import load

    (broken,) = load._load_folder(folder)
    return broken


builtins._both = _both  # type: ignore[attr-defined]  # for the probes
