"""The words of the screens, as data (`glossary.toml`): what each means, and which page says more."""

from __future__ import annotations

import functools
import webbrowser
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxq.base.errors import UserError, nearest
from onnxq.base.plain import DocumentPart
from onnxq.base.shown import Shown, Words, count
from onnxq.base.tables import load
from onnxq.options.flag_words import tells_keywords
from onnxq.options.verbs import VERBS


@dataclass(frozen=True, slots=True)
class GlossaryWord(DocumentPart):
    """A word.

    Attributes:
        name: it.
        text: what it means, in one to three sentences.
        page: the page of the documentation that says more, with its heading: `docs/data.md#data`.
        also: other words under which it is found.
    """

    name: str
    text: str
    page: str
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Glossary(Shown, DocumentPart):
    """Words of the screens.

    Attributes:
        kind: "words".
        schema: 1.
        entries: they, by name.
    """

    kind: str
    schema: int
    entries: tuple[GlossaryWord, ...]

    def words(self) -> Words:
        """What each means."""
        rows = [(one.name, one.text, one.page) for one in self.entries]
        return Words(count(len(rows), "word"), (), ("word", "means", "page"), rows)


def _built(tables: Mapping[str, Any], document: str) -> tuple[GlossaryWord, ...]:
    return tuple(GlossaryWord(**{**one, "also": tuple(one.get("also", ()))}) for one in tables["word"])


@functools.cache
def _entries() -> tuple[GlossaryWord, ...]:
    return load(Path(__file__).with_name("glossary.toml"), _built)


@tells_keywords
def explain_word(word: str | None = None, *, open: bool = False) -> Glossary:
    """What a word of the screens means, and which page of the documentation says more.

    Args:
        word: it, in upper or lower case; None: all of them.
        open: show that page in your browser, where the documentation is beside the package.

    Raises:
        UserError: there is no such word, or nothing can be shown.
    """
    if word is None:
        if open:
            raise UserError("a page is to be shown, and there is no word", hint="onnxq help WORD --open")
        return Glossary("words", 1, _entries())
    names = {name.casefold(): one for one in _entries() for name in (*one.also, one.name)}
    found = names.get(" ".join(word.split()).casefold())
    if found is None:
        raise _unknown(word)
    if open:
        _show(found.page)
    return Glossary("words", 1, (found,))


def _unknown(word: str) -> UserError:
    """The error for a word that is not there, with those that are near or say it in their text."""
    known = [name for one in _entries() for name in (one.name, *one.also)]
    folded = word.casefold()
    near = [name for name in known if folded in name.casefold() or name.casefold() in folded]
    near = near or [one.name for one in _entries() if folded in one.text.casefold()]
    hint = f"did you mean {', '.join(map(repr, near[:3]))}?" if near else nearest(word, known)
    verb = next((name for name in VERBS if folded in name.split()), "")
    if verb:
        hint = f"it is a verb: onnxq {verb} --help;"
    return UserError(f"there is no word {word!r}", hint=f"{hint} onnxq help lists all".strip())


def page_file(page: str) -> Path | None:
    """The file of a page of the documentation; None where it is not beside the package, as in a wheel."""
    path = Path(__file__).resolve().parents[2] / page.partition("#")[0]
    return path if path.is_file() else None


def _show(page: str) -> None:
    """Shows a page of the documentation in the browser.

    Raises:
        UserError: it is not there, or there is no browser.
    """
    name, _, heading = page.partition("#")
    path = page_file(page)
    if path is None:
        raise UserError(
            f"the documentation is not installed with onnxq: {name} is not there",
            hint=f"read {page} in the repository that onnxq was installed from",
        )
    if not webbrowser.open(path.as_uri() + f"#{heading}" * bool(heading)):
        raise UserError("there is no browser that could be opened", hint=f"read {path}")
