"""A page as a browser without scripts has it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any


class Read(HTMLParser):
    """The page as a browser without scripts has it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.scripts: list[str] = []
        self._of: dict[str, list[str]] = {}
        self._section = ""
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self._section = dict(attrs).get("id") or ""
        if tag in ("script", "style"):
            self._inside = tag
            self.scripts += [""] * (tag == "script")

    def handle_endtag(self, tag: str) -> None:
        if tag == "section":
            self._section = ""
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif not self._inside:
            self.text.append(data)
            self._of.setdefault(self._section, []).append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.text).split())

    def said_in(self, section: str) -> str:
        """The text of a section, by its id."""
        return " ".join(" ".join(self._of.get(section, ())).split())

    @property
    def sections(self) -> list[str | None]:
        return [attrs.get("id") for tag, attrs in self.tags if tag == "section"]

    @property
    def data(self) -> dict[str, list[dict[str, Any]]]:
        packed = json.loads(self.scripts[0]) if len(self.scripts) > 1 else {}
        return {
            name: [dict(zip(part["fields"], row, strict=True)) for row in part["rows"]]
            for name, part in packed.items()
        }
