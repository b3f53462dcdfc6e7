"""Whether a row of the catalogue is said, with the values that a test knows: its words are nobody else's."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Formatter

from onnxq.base import catalogue

FILES = sorted(path.stem for path in Path(catalogue.__file__).parent.glob("*.toml"))


def templates(code: str) -> Iterator[str]:
    """The texts of a code; behind a `/` stands which part of a row, where it is not what it says."""
    code, _, part = code.partition("/")
    row, *forms = code.split(".")
    for file in FILES:
        texts = catalogue.table(file).get(row, {})
        if all(form in texts for form in forms):
            found = functools.reduce(operator.or_, (texts[form] for form in forms), texts)
            yield from filter(None, [found.get(part or "says")])


def pattern(template: str, values: dict[str, object]) -> str:
    """What a text matches, in which other values may be anything."""
    made = ""
    for words, name, spec, conversion in Formatter().parse(" ".join(template.split())):
        made += re.escape(words)
        if name in values:
            value = repr(values[name]) if conversion == "r" else values[name]
            as_text = value if isinstance(value, str) else format(value, spec or "")
            before, behind = (r"\b" if end.isalnum() else "" for end in (as_text[:1], as_text[-1:]))
            made += before + re.escape(as_text) + behind
        elif name is not None:
            made += ".*?"
    return made


def is_said(where: object, code: str, /, **values: object) -> bool:
    """Whether a text, or one of several, says what the catalogue has for a code."""
    texts = [where] if isinstance(where, str) or not isinstance(where, Iterable) else [*where]
    found = [pattern(template, values) for template in templates(code)]
    assert found, f"no row has the code {code!r}"
    return any(re.search(one, " ".join(str(text).split())) for one in found for text in texts)
