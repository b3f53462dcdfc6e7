"""Every document by its kind, and its JSON Schema, made of the dataclass that it derives from."""

from __future__ import annotations

import collections.abc
import dataclasses
import hashlib
import inspect
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from onnxq.base.catalogue import Fact
from onnxq.base.errors import unknown_name
from onnxq.base.plain import DocumentPart
from onnxq.base.registry import at
from onnxq.base.shown import Shown, Words, count
from onnxq.options.flag_words import tells_keywords

BASE = "https://onnxq.invalid/schemas"
"""What `$id` begins with: a name, not an address; nothing is fetched."""


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """A document.

    Attributes:
        kind: what its field `kind` says.
        number: what its field `schema` says.
        place: its dataclass, `module:class`.
        made_by: the verbs that print or write it.
    """

    kind: str
    number: int
    place: str
    made_by: tuple[str, ...]

    def load(self) -> type[Any]:
        """The dataclass."""
        found: type[Any] = at(self.place)
        return found


@dataclass(frozen=True, slots=True)
class KindListed(DocumentPart):
    """A kind of document.

    Attributes:
        kind: what its field `kind` says.
        number: what its field `schema` says.
        made_by: the verbs that print or write it.
        what: what it is, in a line.
    """

    kind: str
    number: int
    made_by: tuple[str, ...]
    what: str


@dataclass(frozen=True, slots=True, repr=False)
class SchemaList(Shown, DocumentPart):
    """The kinds of documents.

    Attributes:
        kind: "schemas".
        schema: 1.
        documents: each of them, by name.
    """

    kind: str
    schema: int
    documents: tuple[KindListed, ...]

    def words(self) -> Words:
        """What each is."""
        rows = [(one.kind, str(one.number), ", ".join(one.made_by), one.what) for one in self.documents]
        return Words(count(len(rows), "kind") + " of documents", (), ("kind", "schema", "by", "what"), rows)


_KINDS = (
    DocumentKind("report", 12, "onnxq.documents.report:Report", ("quantize", "sanitize")),
    DocumentKind("advised", 1, "onnxq.documents.advice:Advised", ("quantize --budget",)),
    DocumentKind("plan", 12, "onnxq.documents.report:PlanReport", ("plan",)),
    DocumentKind("sensitivity", 12, "onnxq.documents.report:SensitivityReport", ("sensitivity",)),
    DocumentKind("bundle", 1, "onnxq.inspection.bundling:Bundle", ("bundle",)),
    DocumentKind("decision", 1, "onnxq.inspection.deciding:BundleDecision", ("decide",)),
    DocumentKind("calibration", 3, "onnxq.documents.data:StatisticsTaken", ("calibrate",)),
    DocumentKind("checks", 3, "onnxq.inspection.checking:Checks", ("check",)),
    DocumentKind("model", 2, "onnxq.inspection.description:ModelSummary", ("inspect",)),
    DocumentKind("tensor", 2, "onnxq.inspection.description:TensorSummary", ("inspect --tensor",)),
    DocumentKind("nodes", 1, "onnxq.analysis.nodes:ModelNodes", ("inspect --nodes",)),
    DocumentKind("data", 3, "onnxq.inspection.data_seen:DataSeen", ("data",)),
    DocumentKind("statistics", 1, "onnxq.analysis.tensors:TensorTable", ("statistics activations",)),
    DocumentKind("weights", 2, "onnxq.analysis.weights:WeightTable", ("statistics weights",)),
    DocumentKind("memory", 1, "onnxq.analysis.memory:ModelMemory", ("statistics memory",)),
    DocumentKind("comparison", 7, "onnxq.inspection.comparing:Comparison", ("compare",)),
    DocumentKind("analysis", 1, "onnxq.documents.analysis:Analysis", ("analyze",)),
    DocumentKind("diff", 1, "onnxq.analysis.diff.rows:RunDiff", ("report",)),
    DocumentKind("engine", 3, "onnxq.inspection.engine_reading:EngineDocument", ("engine",)),
    DocumentKind("verdict", 2, "onnxq.compiled.verdict:Verdict", ("quantize", "engine --against-fp16")),
    DocumentKind("page", 1, "onnxq.pipeline.written_page:WrittenPage", ("report",)),
    DocumentKind("pieces", 3, "onnxq.documents.pieces:Manifest", ("pieces split",)),
    DocumentKind("run", 3, "onnxq.documents.pieces:ChainRun", ("pieces run",)),
    DocumentKind("extract", 2, "onnxq.documents.pieces:ExtractReport", ("pieces extract",)),
    DocumentKind("settings", 1, "onnxq.inspection.first_settings:FirstSettings", ("init",)),
    DocumentKind("rules", 1, "onnxq.inspection.rule_book:RuleList", ("rules list",)),
    DocumentKind("rule", 1, "onnxq.inspection.rule_book:RuleText", ("rules explain",)),
    DocumentKind("message", 1, "onnxq.inspection.rule_book:KnownOfMessage", ("rules explain --message",)),
    DocumentKind("tried-rules", 1, "onnxq.inspection.rule_book:RulesTried", ("rules test",)),
    DocumentKind("words", 1, "onnxq.documents.glossary:Glossary", ("help",)),
    DocumentKind("symptoms", 1, "onnxq.advice.symptoms:SymptomTable", ("help symptoms",)),
    DocumentKind("schemas", 1, "onnxq.emit.schemas:SchemaList", ("help schema",)),
    DocumentKind("error", 2, "onnxq.documents.ended:ErrorEnd", ("any verb that fails",)),
)  # fmt: skip
KINDS: Mapping[str, DocumentKind] = {entry.kind: entry for entry in _KINDS}
"""Every document."""


def list_schemas() -> SchemaList:
    """The kinds of documents, with the numbers of their schemas."""
    return SchemaList(
        "schemas",
        1,
        tuple(
            KindListed(one.kind, one.number, one.made_by, Fact(one.kind).text("documents")) for one in _KINDS
        ),
    )


@tells_keywords
def schema(kind: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind of document, or that of a file to edit (draft 7).

    Every field is there, and no other one. A number is null where it is NaN, and the text "inf" or "-inf"
    where it is infinite.

    Args:
        kind: what the document's field `kind` says, "report" say; `onnxq help schema` lists them. Of files
            that users edit "onnxq.toml" or "plan.toml", for their editors.

    Raises:
        UserError: there is no such kind.
    """
    if kind in ("onnxq.toml", "plan.toml"):
        from onnxq.emit.toml_schema import TOML_SCHEMAS

        return TOML_SCHEMAS[kind]()
    if kind not in KINDS:
        raise unknown_name("kind of document", kind, sorted([*KINDS, "onnxq.toml", "plan.toml"]))
    entry = KINDS[kind]
    made = entry.load()
    found = _generated(made)
    found["properties"]["kind"] = {"const": entry.kind, **_said(found["properties"]["kind"])}
    found["properties"]["schema"] = {"const": entry.number, **_said(found["properties"]["schema"])}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{BASE}/{entry.kind}.{entry.number}.schema.json",
        "title": entry.kind,
    }
    return {**head, **{key: value for key, value in found.items() if key not in head}}


def _said(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key == "description"}


def _generated(made: type[Any]) -> dict[str, Any]:
    """What pydantic makes of a dataclass, with the words of docstrings and strict objects."""
    from pydantic import TypeAdapter  # 100 ms, and only for schemas
    from pydantic.json_schema import GenerateJsonSchema

    class Generate(GenerateJsonSchema):
        """As pydantic does, but for numbers that JSON lacks."""

        def float_schema(self, schema: Any) -> dict[str, Any]:
            return {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", None]}]}

    found = TypeAdapter(made).json_schema(mode="serialization", schema_generator=Generate)
    known = {one.__name__: one for one in _dataclasses(made)}
    _finish(found, made)
    for name, part in found.get("$defs", {}).items():
        if name in known:
            _finish(part, known[name])
    return found


def _dataclasses(kind: Any, seen: set[Any] | None = None) -> Iterator[type[Any]]:
    """A dataclass and all that its fields are of."""
    seen = set() if seen is None else seen
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind in seen:
            return
        seen.add(kind)
        yield kind
        for hint in typing.get_type_hints(kind).values():
            yield from _dataclasses(hint, seen)
    for part in typing.get_args(kind):
        yield from _dataclasses(part, seen)


def _finish(part: dict[str, Any], made: type[Any]) -> None:
    """Makes an object strict, names fields as JSON does, and says of each what its docstring says."""
    words, summary = described(made)
    named: dict[str, Any] = {}
    for field in dataclasses.fields(made):
        key = field.metadata.get("key", field.name)
        named[key] = {
            k: v for k, v in part["properties"][field.name].items() if k not in ("title", "default")
        }
        if key in words:
            named[key]["description"] = words[key]
    part.pop("properties", None)
    part.pop("required", None)
    part["description"] = summary
    part["properties"], part["required"], part["additionalProperties"] = named, list(named), False


def described(made: type[Any]) -> tuple[dict[str, str], str]:
    """What the docstrings of a dataclass and its bases say of its fields, and the first one's first line."""
    words: dict[str, str] = {}
    for one in reversed(made.__mro__):
        text = inspect.cleandoc(one.__dict__.get("__doc__") or "")
        _, _, listed = text.partition("\nAttributes:\n")
        for match in re.finditer(r"^    (\w+): (.*(?:\n     +.*)*)", listed.split("\n\n")[0], re.MULTILINE):
            words[match[1]] = re.sub(r"\bNone\b", "null", " ".join(match[2].split()))
    return words, inspect.cleandoc(made.__doc__ or "").split("\n")[0]


def fingerprint(kind: str) -> str:
    """What a schema says of fields and types, as a hash: the same number of a schema has the same one.

    Args:
        kind: as in `schema`.
    """
    return digest_of(KINDS[kind].load())


def digest_of(made: type[Any]) -> str:
    """The same of a dataclass."""
    return hashlib.sha256(json.dumps(_form(made), sort_keys=True).encode()).hexdigest()[:16]


def _form(kind: Any) -> Any:
    """A type as JSON has it: names of classes and words do not count."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {f.metadata.get("key", f.name): _form(hints[f.name]) for f in dataclasses.fields(kind)}
    if kind is Any or kind is object:
        return "anything"
    parts = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return ["one of", *sorted(map(str, parts))]
    if not parts:
        return "null" if kind is type(None) else getattr(kind, "__name__", str(kind))
    inner = [_form(part) for part in parts if part is not Ellipsis]
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return ["or", *sorted(inner, key=json.dumps)]
    what = "object of" if typing.get_origin(kind) is collections.abc.Mapping else "list of"
    return [what, *inner, *(["..."] if Ellipsis in parts else [])]
