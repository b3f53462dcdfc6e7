"""How large the package is, and how much of it a reader meets: no count may rise, and what fell stays so."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from benchmarks import counts

CEILINGS: dict[str, int] = tomllib.loads(Path(__file__).with_name("ceilings.toml").read_text("utf-8"))
SLACK, OF_A_RUN = 0.005, 0.05
"""Of a ceiling: what lies lower by more is written there. What a run enters hangs a little on the machine."""


@pytest.fixture(scope="module")
def parsed() -> list[counts.File]:
    return counts.files(counts.ROOT)


def bounded(name: str, found: int, slack: float = SLACK) -> None:
    ceiling = CEILINGS[name]
    assert found <= ceiling, f"{counts.TITLES[name]}: {found}, where there were {ceiling}"
    assert found >= ceiling * (1 - slack) - 1, f"{counts.TITLES[name]}: {found}; say so in ceilings.toml"


@pytest.mark.parametrize("name", sorted(CEILINGS.keys() - {"entered", "words"}))
def test_no_count_rises(name: str, parsed: list[counts.File]) -> None:
    bounded(name, len(set(counts.STATIC[name](parsed))))


def test_no_more_words_are_written() -> None:
    bounded("words", len(set(counts.written_words(counts.ROOT))))


def test_a_default_run_enters_no_more() -> None:
    parsed = counts.files(counts.ROOT)
    found = set(counts.entered_lines(parsed, counts.entered(counts.ROOT)))
    bounded("entered", len(found), OF_A_RUN)
