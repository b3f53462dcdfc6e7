"""Rows as CSV: what a reader gets back, and what a spreadsheet must not take for a formula."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnxq.base.errors import UserError
from onnxq.emit.table_csv import check_csv_output, save_csv, table_csv


@dataclass(frozen=True)
class Row:
    name: str
    value: float | None = None
    count: int = 0
    done: bool = False
    shape: tuple[Any, ...] = ()
    more: Mapping[str, float] | None = None


def cells(*rows: Row) -> list[list[str]]:
    return list(csv.reader(io.StringIO(table_csv(Row, rows))))


def test_columns_are_the_fields_and_values_come_back() -> None:
    head, one, two = cells(Row('a,"b"', 0.1 + 0.2, 2**60, True, (1, "N", None), {"x": math.nan}), Row("b"))
    assert head == ["name", "value", "count", "done", "shape", "more"]
    assert one[0] == 'a,"b"'
    assert float(one[1]) == 0.1 + 0.2
    assert one[2:] == [str(2**60), "true", '[1, "N", null]', '{"x": null}']
    assert two == ["b", "", "0", "false", "[]", ""]


def test_no_rows_are_a_line_of_names() -> None:
    assert table_csv(Row, ()) == "name,value,count,done,shape,more\n"


@pytest.mark.parametrize(
    ("value", "text"), [(np.float64(0.1), "0.1"), (math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_numbers_as_programs_read_them(value: float, text: str) -> None:
    assert cells(Row("a", value))[1][1] == text


@pytest.mark.parametrize(
    "name",
    ["=1+1", "+1", "-1", "@SUM(A1)", "  =cmd|' /C calc'!A0", "\t=1", "\r=1", "\n=1", "\uff1d1", "\ufeff=1"],
)
def test_no_text_is_a_formula(name: str) -> None:
    cell = cells(Row(name))[1][0]
    assert cell[0] in "'\\", "neither a formula nor something that a spreadsheet strips in front of one"


def test_every_row_is_one_line_whatever_names_hold() -> None:
    names = ["a\nb", "a\r\nb", "\x1b[31m", "\u202eabc", "a\x00b", "\udcff", "\u2028"]
    text = table_csv(Row, [Row(name) for name in names])
    assert text.count("\n") == len(text.splitlines()) == len(names) + 1
    assert text.replace("\n", "").isprintable()
    text.encode("utf-8")


def test_an_earlier_table_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    check_csv_output(path, Row)
    save_csv(path, Row, [Row("a")])
    check_csv_output(path, Row)
    path.write_text("name,price\nmine,1\n")
    with pytest.raises(UserError, match="onnxq did not write it"):
        check_csv_output(path, Row)
    check_csv_output(path, Row, force=True)
    with pytest.raises(UserError, match=r"not named \*\.csv"):
        check_csv_output(tmp_path / "rows.txt", Row)
