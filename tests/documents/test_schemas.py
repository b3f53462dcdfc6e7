"""The published schemas: they are those of the types, and a number of a schema stays what it is."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest

import onnxq
from onnxq.base.errors import UserError
from onnxq.base.plain import to_json
from onnxq.base.typed import Unlike, typed
from onnxq.emit import schemas
from onnxq.emit.toml_schema import TOML_SCHEMAS

SCHEMAS = {kind: onnxq.schema(kind) for kind in schemas.KINDS}
FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schemas"
KEPT = FOLDER / "fingerprints.json"
"""By kind, the fingerprint of each number that a schema has had. None of them is ever another one."""


def published(kind: str) -> Path:
    return FOLDER / f"{kind}.schema.json"


def kept() -> dict[str, dict[str, str]]:
    return json.loads(KEPT.read_text("utf-8")) if KEPT.is_file() else {}


def broken(kind: schemas.DocumentKind, known: Mapping[str, Mapping[str, str]], now: str) -> str:
    """What is wrong with the number of a schema; "" where nothing is."""
    numbers = known.get(kind.kind, {})
    was = numbers.get(str(kind.number))
    if was is None:
        return f"schema {kind.number} of {kind.kind!r} is new: make reference"
    if was != now:
        return (
            f"a field of {kind.kind!r} is another one, and schema {kind.number} stays as it was: "
            "give it the next one in onnxq/emit/schemas.py and where it is made, then: make reference"
        )
    return ""


@pytest.fixture(scope="module", autouse=True)
def written() -> None:
    """With ONNXQ_GOLDEN=1 the files are written; a fingerprint that is there stays."""
    if os.environ.get("ONNXQ_GOLDEN") != "1":
        return
    FOLDER.mkdir(exist_ok=True)
    known = kept()
    for kind in sorted(schemas.KINDS.values(), key=lambda kind: kind.kind):
        text = json.dumps(SCHEMAS[kind.kind], indent=1) + "\n"
        published(kind.kind).write_text(text, encoding="utf-8")
        known.setdefault(kind.kind, {}).setdefault(str(kind.number), schemas.fingerprint(kind.kind))
    for name, made in TOML_SCHEMAS.items():
        published(name).write_text(json.dumps(made(), indent=1) + "\n", encoding="utf-8")
    KEPT.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_the_published_schema_is_that_of_the_type(kind: str) -> None:
    now = SCHEMAS[kind]
    if kind in ("report", "analysis", "error"):  # half a second
        jsonschema.Draft202012Validator.check_schema(now)
    assert json.loads(published(kind).read_text("utf-8")) == now, "make reference"


@pytest.mark.parametrize("name", TOML_SCHEMAS)
def test_the_published_schema_of_a_file_to_edit_is_what_reads_it(name: str) -> None:
    now = onnxq.schema(name)
    jsonschema.Draft7Validator.check_schema(now)
    assert json.loads(published(name).read_text("utf-8")) == now, "make reference"


def test_nothing_else_is_published() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        *(published(kind).name for kind in (*schemas.KINDS, *TOML_SCHEMAS)),
        KEPT.name,
    }


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_a_number_is_of_one_form(kind: str) -> None:
    assert broken(schemas.KINDS[kind], kept(), schemas.fingerprint(kind)) == ""


def test_a_changed_field_without_a_new_number_is_found() -> None:
    """Whatever is changed of a field, in the document itself or deep inside."""

    def mark(name: str = "because", hint: Any = str, key: str = "node", more: Sequence[Any] = ()) -> str:
        node = ("node", str, field(metadata={"key": key}))
        inner = dataclasses.make_dataclass("Inner", [node, (name, hint), *more])
        return schemas.digest_of(dataclasses.make_dataclass("Made", [("all", tuple[inner, ...])]))

    first = mark()
    known = {"made": {"1": first}}
    entry = schemas.DocumentKind("made", 1, "", ())
    assert broken(entry, known, mark()) == ""
    for changes in (
        {"name": "why"},
        {"hint": str | None},
        {"hint": float},
        {"hint": Literal["a", "b"]},
        {"key": "name"},
        {"more": [("code", str)]},
    ):
        assert "stays as it was" in broken(entry, known, mark(**changes)), changes
    assert "is new" in broken(dataclasses.replace(entry, number=2), known, first)


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_every_field_is_described(kind: str) -> None:
    schema = SCHEMAS[kind]
    parts = [schema, *schema.get("$defs", {}).values()]
    objects = [part for part in parts if part.get("type") == "object"]
    without = [
        f"{part['title']}.{name}"
        for part in objects
        for name, said in part["properties"].items()
        if not said.get("description")
    ]
    assert without == []
    assert [part["title"] for part in objects if part["additionalProperties"]] == []


def test_a_schema_is_strict_and_knows_what_json_lacks() -> None:
    schema = SCHEMAS["sensitivity"]
    ranked = {"$defs": schema["$defs"], "$ref": "#/$defs/DecisionRanked"}
    entry: dict[str, Any] = {
        "nodes": ["a"], "removes": None, "gain_db": 1.5, "measured_gain_db": None, "alone_db": "inf",
        "cost": 2, "share_of_int8_macs": None, "sources": [], "why": "", "score": "-inf",
        "score_alone": None, "op": "",
    }  # fmt: skip
    valid = jsonschema.Draft202012Validator(ranked).is_valid
    assert valid(entry)
    assert not valid(entry | {"alone_db": "nan"})
    assert not valid(entry | {"nodes": "a"})
    assert not valid(entry | {"more": 1})
    assert not valid({key: value for key, value in entry.items() if key != "why"})


@dataclass(frozen=True, slots=True)
class _Part:
    start: tuple[str, ...] = field(metadata={"key": "from"})
    level: float
    size: int | None = None
    by: Mapping[str, float] = field(default_factory=dict)


def test_plain_json_becomes_its_type_and_back() -> None:
    plain = {"from": ["a"], "level": "-inf", "size": 3, "by": {"x": None}}
    read = typed(_Part, plain)
    assert (read.start, read.level, read.size) == (("a",), float("-inf"), 3)
    assert to_json(read) == plain
    assert to_json(typed(_Part, {"from": [], "level": 1})) == {"from": [], "level": 1, "size": None, "by": {}}
    for wrong, said in (
        ({"from": []}, "lacks 'level'"),
        (plain | {"to": 1}, "has no 'to'"),
        (plain | {"size": 1.5}, ".size"),
        (plain | {"size": True}, ".size"),
        (plain | {"from": "a"}, ".from"),
        (plain | {"from": [1]}, r"\.from\[0\]"),
    ):
        with pytest.raises(Unlike, match=said):
            typed(_Part, wrong)


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(UserError, match="no kind of document 'sensitivty'") as caught:
        onnxq.schema("sensitivty")
    assert caught.value.hint == "did you mean 'sensitivity'?"


def test_the_list_names_every_kind_once_with_verbs_that_there_are() -> None:
    from onnxq.options.verbs import VERBS

    listed = onnxq.list_schemas().documents
    assert [one.kind for one in listed] == list(schemas.KINDS)
    assert {len(one.what) < 60 and one.number > 0 for one in listed} == {True}
    named = {one.split()[0] for entry in listed for one in entry.made_by} - {"any"}
    assert named == {name.split()[0] for name in VERBS}


def test_the_page_of_documents_names_every_kind() -> None:
    text = (FOLDER.parents[1] / "documents.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \|", text, re.MULTILINE)
    assert rows == [(kind.kind, str(kind.number)) for kind in schemas.KINDS.values()]


def test_pydantic_is_for_schemas_alone() -> None:
    code = (
        "import sys, onnxq, onnxq.emit.schemas, onnxq.pipeline.jobs, onnxq.cli.app; onnxq.list_schemas()\n"
        "print('pydantic' in sys.modules); onnxq.schema('error'); print('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
