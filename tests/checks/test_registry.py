"""One registry: a check is one file, onnxq's or the user's, and says itself what it needs."""

from __future__ import annotations

import inspect
import itertools
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import onnx
import pytest
from lint_nets import MISTAKES
from lint_nets import net as pairs_net
from misuse_nets import RIGHT, net, usual

import onnxq
from onnxq.base import catalogue
from onnxq.base.catalogue import table
from onnxq.base.errors import UserError
from onnxq.checks import NEEDS, Check, Evidence, Fact, Seen, Subject, api, each, load
from onnxq.checks.answers import RuntimeAnswer, TargetAnswer
from onnxq.checks.each.dla import OnDla
from onnxq.checks.finding import Finding
from onnxq.checks.lint import confirmed_lint
from onnxq.checks.load import CHECKS, ORDER, found_by
from onnxq.checks.subject import subject_of
from onnxq.graph.model import Model
from onnxq.inspection import checking

GIVEN = {
    "file": Subject, "pairs": Subject, "plan": Evidence, "data": Evidence, "engine": Seen,
    "target": TargetAnswer, "dla": OnDla, "runtime": RuntimeAnswer,
}  # fmt: skip

NO_BIAS = '''"""Convolutions without a bias."""

from onnxq.checks import Said, Subject, check


@check("no-bias", "a Conv without a bias", needs="file", severity="note")
def no_bias(subject: Subject):
    for node in subject.nodes:
        if node.op == "Conv" and len(node.inputs) < 3:
            yield Said(node.name, node.op, "it has no bias", "train it with one")
'''

FACT_OF_NO_BIAS = (
    NO_BIAS.replace(', "a Conv without a bias"', "")
    .replace("import Said,", "import Fact,")
    .replace(
        'Said(node.name, node.op, "it has no bias", "train it with one")',
        'Fact("no-bias", (node.name, node.op), {"op": node.op})',
    )
)
"""The same as a check of onnxq's, whose words its row has."""

OF_NEEDS = """from onnxq.checks import Said, check

def said(known): yield Said(reason=type(known).__name__)

needs = ("file", "pairs", "plan", "data", "engine")
asked = [check(f"of-{need}", "nothing", needs=need)(said) for need in needs]
of_file, of_pairs, of_plan, of_data, of_engine = asked
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of one convolution without bias, `l`, and a Relu."""
    onnx.save(net(RIGHT["float"][0]), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files are read as those of onnxq's checks."""
    folder = tmp_path / "beside"
    folder.mkdir()
    monkeypatch.setattr(each, "__path__", [*each.__path__, str(folder)])
    return folder


def checked(model: Path, own: Path) -> list[Finding]:
    return list(onnxq.check(model, checks=[str(own)], prove="never", compile=False).findings)


# -- onnxq's own -----------------------------------------------------------------------------------


def test_a_file_and_a_row_are_all_that_a_check_of_onnxqs_needs(
    beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (beside / "no_bias_of_mine.py").write_text(FACT_OF_NO_BIAS)
    row = {
        "no-bias": {"cause": "a Conv without a bias", "says": "it has no bias", "do": "train {op} with one"}
    }
    monkeypatch.setattr(catalogue, "table", lambda file: {**table(file), **row})
    monkeypatch.setattr(api, "table", catalogue.table)
    monkeypatch.setattr(load, "CHECKS", load.read_checks())
    convs = Model.open(pairs_net(MISTAKES["weights-only"][0]))
    assert {one.check for one in confirmed_lint(convs)} == {"no-bias", "weights-only"}
    (one,) = [one for one in confirmed_lint(convs) if one.check == "no-bias"]
    assert (one.severity, one.kind, one.op) == ("note", "no-bias", "Conv")
    assert (one.advice, one.consequence) == ("train Conv with one", "")
    assert [name for name in load.CHECKS if name in ORDER] == list(ORDER)


def test_two_checks_of_one_name_are_a_fault(beside: Path) -> None:
    (beside / "uint8_again.py").write_text(NO_BIAS.replace("no-bias", "uint8"))
    with pytest.raises(AssertionError, match="are named 'uint8'"):
        load.read_checks()


def test_each_file_holds_checks_that_are_called_with_what_they_need() -> None:
    files = {path.stem for path in Path(each.__file__).parent.glob("*.py")} - {"__init__"}
    places = {}
    for check in CHECKS.values():
        assert check.needs in NEEDS
        assert check.what
        assert check.place is None
        if check.function is None:
            continue
        places[check.name] = check.function.__module__.rpartition(".")[2]
        hints = get_type_hints(check.function)
        known = next(iter(inspect.signature(check.function).parameters))
        assert hints[known] is GIVEN[check.needs], check.name
    assert set(places.values()) == files - {"told"}


def test_of_causes_the_first_is_told_of_a_tensor() -> None:
    def of(name: str, *tensors: str) -> Check:
        facts = [Fact(name, ("", "", tensor)) for tensor in tensors]
        return replace(CHECKS[name], is_cause=name != "zero-point", function=lambda _: facts)

    found = found_by([of("uint8", "x"), of("scale-sign", "x", "y", ""), of("zero-point", "x")], None)
    assert [(one.check, one.tensor) for one in found] == [
        ("uint8", "x"), ("scale-sign", "y"), ("scale-sign", ""), ("zero-point", "x"),
    ]  # fmt: skip


# -- the user's ------------------------------------------------------------------------------------


def test_a_graph_check_of_the_users_needs_no_data(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the file that onnxq's would be; nothing is planned or measured for it."""
    monkeypatch.setattr(checking, "evidence_of", None)
    own = tmp_path / "mine.py"
    own.write_text(NO_BIAS)
    for spec in (own, f"{own}:no_bias"):
        (one,) = checked(model, Path(spec))
        assert (one.check, one.severity, one.node, one.op) == ("no-bias", "note", "l", "Conv")
        assert one.kind == f"{own}:no_bias"


def test_what_a_check_needs_is_what_it_is_called_with(model: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(OF_NEEDS)
    told = {one.check: (one.severity, one.reason) for one in checked(model, own)}
    assert told == {
        "of-file": ("warning", "Subject"), "of-pairs": ("warning", "Subject"),
        "of-plan": ("warning", "Evidence"),
        "of-data": ("note", "'of-data' was not asked: it needs data"),
        "of-engine": ("note", "'of-engine' was not asked: it needs an engine"),
    }  # fmt: skip
    data = [{"x": x} for x in itertools.islice(usual()["x"], 32)]
    found = onnxq.check(model, data, checks=[str(own)], prove="never", compile=False, target="tensorrt-7")
    told = {one.check: (one.severity, one.reason) for one in found.findings if one.check.startswith("of-")}
    assert told["of-data"] == ("warning", "Evidence")
    assert told["of-pairs"][0] == "note"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"no-bias"', '"uint8"', "is named 'uint8', as a check of onnxq"),
        ('"no-bias"', '"No bias"', "'No bias' is no name of a check"),
        ('needs="file"', 'needs="files"', "line 6: the check 'no-bias' needs 'files'"),
        ('needs="file"', 'needs="target"', "needs 'target', which only onnxq tells"),
        ('needs="file"', 'needs="runtime"', "needs 'runtime', which only onnxq tells"),
        (', "a Conv without a bias"', "", "line 6: the check 'no-bias' does not say what is wrong"),
        ('severity="note"', 'severity="bad"', "line 6: the check 'no-bias' has severity 'bad'"),
        ('"train it with one")', '"", 1, 2, 3, 4, 5, 6, 7)', "takes from 1 to 10 positional arguments"),
        ("@check", "check", "does not say which function"),
    ],
)
def test_what_is_wrong_with_a_users_check_is_said(
    model: Path, tmp_path: Path, old: str, new: str, says: str
) -> None:
    own = tmp_path / "mine.py"
    own.write_text(NO_BIAS.replace(old, new))
    if "takes from" in says:  # known when it runs
        (one,) = checked(model, own)
        assert (one.check, one.severity) == ("broken-check", "error")
        assert says in one.reason
        return
    with pytest.raises(UserError) as error:
        checked(model, own)
    assert says in str(error.value)
    assert error.value.hint


def test_what_it_gives_may_be_a_mapping_too(model: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    said = 'yield Said(node.name, node.op, "it has no bias", "train it with one")'
    own.write_text(NO_BIAS.replace(said, "yield {'reason': 'none', 'node': node.name, 'severity': 'error'}"))
    (one,) = checked(model, own)
    assert (one.check, one.severity, one.op, one.reason) == ("no-bias", "error", "Conv", "none")


def test_either_may_be_of_another_severity(model: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(NO_BIAS.replace('"train it with one"', '"train", severity="error"'))
    assert [(one.check, one.severity) for one in checked(model, own)] == [("no-bias", "error")]
    own.write_text(NO_BIAS.replace('"train it with one"', '"train", severity="bad"'))
    (one,) = checked(model, own)
    assert (one.check, one.reason[-19:]) == ("broken-check", "gave severity 'bad'")


def written(page: str) -> tuple[str, str]:
    """The check of a page, and the row that is written behind it."""
    text = (Path(__file__).resolve().parents[2] / page).read_text("utf-8")
    (block,) = [part for part in re.findall(r"```python\n(.*?)```", text, re.S) if "@check" in part]
    return block, text.partition(block)[2].partition("```ini\n")[2].partition("```")[0]


def test_the_check_of_the_documents_is_a_check(model: Path, tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text(written("docs/lint.md")[0])
    assert [(one.check, one.node) for one in checked(model, own)] == [("no-bias", "l")]


def test_the_check_of_the_contributors_page_is_onnxqs() -> None:
    block, row = written("CONTRIBUTING.md")
    made: dict[str, Any] = {}
    exec(block, made)
    name = "activation-axis"
    assert tomllib.loads(row) == {name: table("checks")[name]}
    subject = subject_of(Model.open(pairs_net(MISTAKES[name][0])), "tensorrt-11")
    found = found_by([made["activation_axes"]], subject)
    assert found == found_by([CHECKS[name]], subject) != []
