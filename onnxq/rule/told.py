"""An error of a rule, for its author: what, in which line, and which name may have been meant."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from onnxq.base.errors import nearest


def told(error: BaseException, path: str = "") -> str:
    """An exception as its type and its words, with the line of the rule's folder where it was raised.

    Args:
        error: what the rule raised.
        path: the rule's file, "" where there is none.
    """
    (first, *_) = error.args or ("",)
    words = first.decode("utf-8", "replace") if isinstance(first, bytes) else str(error)
    where = _where(error, Path(path)) if path else ""
    return f"{type(error).__name__}: {' '.join(words.split())}{where}{_meant(error, words)}"


def _where(error: BaseException, path: Path) -> str:
    """The line: of the rule's own file or a helper beside it, and the last one that was on the way."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == path.parent]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _meant(error: BaseException, words: str) -> str:
    """The names that a misspelled one is near to."""
    name, names = "", list[str]()
    if isinstance(error, AttributeError) and error.name:
        inner = getattr(type(error.obj), "__slots__", ())
        name = error.name
        names = [entry for entry in dir(error.obj) if not entry.startswith("_") and entry not in inner]
    elif isinstance(error, ImportError | NameError):
        from onnxq import rule

        misspelled = re.search("name '(.+?)'", words)
        name, names = misspelled[1] if misspelled else "", rule.__all__
    near = nearest(name, names) if name else ""
    if near or type(getattr(error, "obj", None)).__module__ != "onnxq.graph.view":
        return f"; {near}" if near else ""
    return f"; it has {', '.join(names)}"
