"""The sentences of a page of Markdown, and how many words each has.

Code, tables, pictures, headings and comments are left out. What is written as code is one word; a point of a
list is at least one sentence.
"""

from __future__ import annotations

import re

_FENCES = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
_PICTURES = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINKS = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`]+`")
_POINT = re.compile(r"(?:[-*]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?])(?:\*\*|[)\"'])?\s+")


def sentences(markdown: str) -> list[str]:
    """The sentences, in their order."""
    for pattern, instead in ((_FENCES, ""), (_COMMENTS, ""), (_PICTURES, ""), (_CODE, "code")):
        markdown = pattern.sub(instead, markdown)
    markdown = _LINKS.sub(r"\1", markdown)
    paragraphs: list[list[str]] = [[]]
    for line in map(str.strip, markdown.splitlines()):
        if not line or line.startswith(("#", "|", "```", "!!!", "---")):
            paragraphs.append([])
        elif _POINT.match(line):
            paragraphs.append([_POINT.sub("", line, count=1)])
        else:
            paragraphs[-1].append(line)
    return [one for lines in paragraphs if lines for one in _END.split(" ".join(lines)) if words(one)]


def words(sentence: str) -> int:
    """How many words a sentence has: what holds a letter or a digit."""
    return sum(any(map(str.isalnum, word)) for word in sentence.split())
