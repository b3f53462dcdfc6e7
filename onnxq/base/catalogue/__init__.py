"""What is said of each thing that is found: a table a code, in the files beside.

Whoever finds something gives a `Fact`: its code, names and numbers. The words stand here.
"""

from __future__ import annotations

import functools
import operator
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@functools.cache
def table(name: str) -> Mapping[str, Mapping[str, Any]]:
    """The rows of one of the files, by code, in their order."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that was found; its row of the catalogue has the words.

    Attributes:
        code: the row, and behind points which forms of it, where it has several.
        about: the names of what it is about, as whoever finds it says.
        values: names and numbers, by their names in the row's texts.
    """

    code: str
    about: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def row(self) -> str:
        """Its row."""
        return self.code.partition(".")[0]

    def text(self, file: str, part: str = "says") -> str:
        """One of its texts, with the values in their places (as `str.format` has them); "" where it has none.

        Args:
            file: the file of its row.
            part: which text: that of the last form that has it, else that of the row.

        Raises:
            KeyError: there is no such row or form, or a text names another value.
        """
        row, *forms = self.code.split(".")
        texts = table(file)[row]
        template: str = functools.reduce(operator.or_, (texts[form] for form in forms), texts).get(part, "")
        return template.format_map(self.values)
