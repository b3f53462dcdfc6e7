"""`onnxq check --as`: text, JSON, annotations of GitHub, SARIF; each has every finding and its command."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
import typer

import onnxq as package
from onnxq.checks import Said
from onnxq.checks.command import Checked, commanded
from onnxq.checks.finding import SEVERITIES
from onnxq.checks.load import CHECKS
from onnxq.cli.app import app
from onnxq.cli.check import _ALL_FORMS
from onnxq.inspection.checking import annotated, sarif

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "checks"))
from lint_nets import MISTAKES, net

QUICK = ("--prove", "never", "--no-engine")

# What SARIF 2.1.0 (sections 3.13 to 3.58) and GitHub's code scanning ask for, of what is written.
TEXT = {"type": "object", "required": ["text"], "additionalProperties": False,
        "properties": {"text": {"type": "string", "minLength": 1}}}  # fmt: skip
URI = {"type": "object", "required": ["uri"], "additionalProperties": False,
       "properties": {"uri": {"type": "string", "pattern": r"^[A-Za-z0-9._~/%:-]+$"}}}  # fmt: skip


def object_of(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required.split(), "additionalProperties": False,
            "properties": properties}  # fmt: skip


def list_of(entries: dict[str, Any], least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": entries, "minItems": least}


LEVEL = {"enum": ["none", "note", "warning", "error"]}
WORD = {"type": "string", "minLength": 1}
RULE = object_of(
    "id", id=WORD, shortDescription=TEXT, help=TEXT, defaultConfiguration=object_of("", level=LEVEL)
)
PLACE = object_of(
    "artifactLocation region",
    artifactLocation=URI,
    region=object_of("startLine", startLine={"type": "integer", "minimum": 1}),
)
LOGICAL = object_of("", fullyQualifiedName=WORD, kind=WORD)
LOCATION = object_of("physicalLocation", physicalLocation=PLACE, logicalLocations=list_of(LOGICAL))
RESULT = object_of(
    "ruleId ruleIndex level message locations partialFingerprints",
    ruleId=WORD, ruleIndex={"type": "integer", "minimum": 0}, level=LEVEL, message=TEXT,
    locations=list_of(LOCATION, 1),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    properties={"type": "object"},
)  # fmt: skip
DRIVER = object_of("name", name=WORD, version=WORD, rules=list_of(RULE))
RUN = object_of(
    "tool results",
    tool=object_of("driver", driver=DRIVER),
    automationDetails=object_of("", id=WORD),
    artifacts=list_of(object_of("", location=URI, roles=list_of(WORD))),
    invocations=list_of(object_of("executionSuccessful", executionSuccessful={"type": "boolean"})),
    results=list_of(RESULT),
)
LOG = {**object_of("version runs", version={"const": "2.1.0"}, runs=list_of(RUN))}
LOG["properties"]["$schema"] = {"type": "string", "pattern": r"/sarif-schema-2\.1\.0\.json$"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file with two errors of zero points."""
    onnx.save(net(MISTAKES["zero-point"][0]), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_every_form_has_the_findings_and_their_commands(model: Path, onnxq: Any) -> None:
    ran = {form: onnxq("check", "net.onnx", "--as", form, *QUICK) for form in _ALL_FORMS}
    assert {one.code for one in ran.values()} == {1}
    findings = ran["json"].json()["findings"]
    assert [(one["node"], one["severity"]) for one in findings] == [("n0", "error"), ("n1", "error")]
    log, lines = ran["sarif"].json(), ran["github"].out.splitlines()
    assert len(lines) == len(log["runs"][0]["results"]) == len(findings)
    for one, line, result in zip(findings, lines, log["runs"][0]["results"], strict=True):
        assert one["command"] == "onnxq sanitize net.onnx"
        for said in (one["node"], one["reason"], one["command"]):
            assert said in line
            assert said in json.dumps(result)
            assert said in ran["text"].out
        assert line.startswith(f"::{one['severity']} file=net.onnx,title=onnxq zero-point::")
        assert result["level"] == one["severity"]
    for form in ("json", "github", "sarif"):
        assert "2 findings (2 errors)" in ran[form].err
    assert ran["text"].out.count("Command") == 1
    assert onnxq("check", "net.onnx", "--json", *QUICK).json() == ran["json"].json()


def test_the_forms_are_those_of_the_result(model: Path, onnxq: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    found = package.check("net.onnx", prove="never", compile=False)
    assert onnxq("check", "net.onnx", "--as", "sarif", *QUICK).json() == found.sarif()
    assert onnxq("check", "net.onnx", "--as", "github", *QUICK).out.splitlines() == found.annotations()


def test_a_model_without_findings(tmp_path: Path, onnxq: Any) -> None:
    onnx.save(net(MISTAKES["zero-point"][1]), tmp_path / "good.onnx")
    ran = onnxq("check", "good.onnx", "--as", "sarif", *QUICK)
    assert (ran.code, ran.json()["runs"][0]["results"]) == (0, [])
    jsonschema.validate(ran.json(), LOG)
    assert onnxq("check", "good.onnx", "--as", "github", *QUICK).out == ""


def test_forms_that_contradict(model: Path, onnxq: Any) -> None:
    ran = onnxq("check", "net.onnx", "--as", "sarif", "--json", *QUICK)
    assert ran.code == 2
    assert "sarif (--as)" in ran.json()["error"]["message"]
    ran = onnxq("check", "net.onnx", "--as", "xml", *QUICK)
    assert (ran.code, ran.out) == (2, "")
    assert "form 'xml'" in ran.err
    ran = onnxq("check", "none.onnx", "--as", "json", *QUICK)
    assert ran.json()["error"]["exit_code"] == 2
    ran = onnxq("check", "none.onnx", "--as", "sarif", *QUICK)
    assert (ran.code, ran.out) == (2, "")


def everything(path: str) -> list[Any]:
    """A finding of each check, and one of the user's own."""
    odd = {
        "reason": "a 100 %\nline: of, two",
        "consequence": "so",
        "node": "/a b/'c'",
        "op": "Conv",
        "tensor": "t",
    }
    found = [
        check.finding(Said(advice=advice, **odd))
        for check in CHECKS.values()
        for advice in (
            "do",
            "onnxq sanitize repairs it",
            "state it: onnxq sanitize --freeze a=VALUE; or cut it",
        )
    ]
    found += [check.finding(Said(reason="of the whole model")) for check in CHECKS.values()]
    advice = f"so: onnxq quantize {shlex.quote(path)} --method mse; else"
    found.append(CHECKS["far-range"].finding(Said(advice=advice, **odd)))
    found.append(type(found[0])("mine", "mine", "note", "", "", "", "of a check of yours", "", ""))
    return commanded(found, Checked(path, "tensorrt-10", "a dir", "--calib 'a dir' --samples 8"))


@pytest.mark.parametrize("path", ["net.onnx", "a b/n:e,t%.onnx", "/abs/ü.onnx"])
def test_sarif_is_valid(path: str) -> None:
    log = json.loads(json.dumps(sarif(everything(path), Path(path))))
    jsonschema.validate(log, LOG)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == [*CHECKS, "mine"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] in SEVERITIES
    of_node = {one["partialFingerprints"]["primaryLocationLineHash"] for one in run["results"]}
    assert len(of_node) == 2 * len(CHECKS) + 1  # with a node and without: advice does not count


def test_sarif_is_valid_by_the_published_schema() -> None:
    """As pydantic's classes have it, which are made of the schema."""
    classes = pytest.importorskip("pydantic_sarif.model", reason="pydantic-sarif is not installed")
    kind = classes.StaticAnalysisResultsFormatSarifVersion210JsonSchema
    log = sarif(everything("net.onnx"), Path("net.onnx"))
    kind.model_validate(log)
    log["runs"][0]["results"][0]["no_such"] = 1
    with pytest.raises(ValueError, match="no_such"):
        kind.model_validate(log)


def test_annotations_are_a_line_each_and_read_back() -> None:
    found = everything("a b/n:e,t%.onnx")
    lines = list(annotated(found, Path("a b/n:e,t%.onnx")))
    assert not [line for line in lines if len(line.splitlines()) != 1]
    form = re.compile(r"::(error|warning|notice) file=([^,:]*),title=([^,:]*)::(.*)")
    for one, line in zip(found, lines, strict=True):
        level, file, title, text = form.fullmatch(line).groups()  # type: ignore[union-attr]
        assert (level == "notice") == (one.severity == "note")
        for code, char in (("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
            file, title, text = (part.replace(code, char) for part in (file, title, text))
        assert (file, title) == ("a b/n:e,t%.onnx", f"onnxq {one.check}")
        assert one.reason in text
        assert text.endswith(f"\n{one.command}")


def test_every_command_is_a_line_of_the_command_line() -> None:
    """Whatever check, node and model: each parses, and nothing is left that is to be filled in."""
    main = typer.main.get_command(app)
    for one in everything("a b/n:e,t%.onnx"):
        program, *words = shlex.split(one.command)
        assert program == "onnxq"
        command = main
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        read = command.make_context(command.name, list(words))
        assert read.args == []
        assert not {"MODEL", "NODE", "OP", "SAMPLES", "REASON"} & set(words)
        if one.check == "far-range" and one.advice.startswith("so"):
            assert one.command == "onnxq quantize 'a b/n:e,t%.onnx' --method mse --target tensorrt-10"
        if "sanitize" in one.advice:
            stated = "--freeze" in one.advice  # a value that the user has to fill in: no command
            told = (
                "inspect 'a b/n:e,t%.onnx'" if stated else "sanitize 'a b/n:e,t%.onnx' --target tensorrt-10"
            )
            assert one.command.partition(" --around ")[0] == f"onnxq {told}"
