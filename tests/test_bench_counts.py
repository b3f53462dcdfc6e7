"""The counts of what is in more than one shape: a planted place is counted, and what looks like it is not."""

from __future__ import annotations

import ast
import json
import textwrap
from pathlib import Path

import pytest

from benchmarks import counts
from benchmarks.counts import File


def parsed(text: str, path: str = "pipeline/planted.py") -> list[File]:
    text = textwrap.dedent(text)
    return [File(path, text, ast.parse(text))]


def found(places: object) -> list[str]:
    return [place.what for place in places]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("lines", "count"), [(60, 0), (61, 1)])
def test_long_functions(lines: int, count: int) -> None:
    text = "@decorated\ndef f():\n" + "    x = 1\n" * (lines - 1)
    assert len(found(counts.long_functions(parsed(text)))) == count


def test_many_arguments() -> None:
    text = """
        def eight(a, b, c, d, /, e, f, *, g, h): ...
        def nine(a, b, c, d, e, f, g, *rest, **options): ...
        class One:
            def method(self, a, b, c, d, e, f, g, h): ...
            async def other(self, a, b, c, d, e, f, g, h, i): ...
    """
    assert found(counts.many_arguments(parsed(text))) == ["nine: 9 parameters", "other: 9 parameters"]


def test_reads_of_documents() -> None:
    text = """
        a = report["plan"]["sites"]
        report["plan"] = 1  # made, not read
        b = report.get("plan", {}), attributes.get("axis"), word in ("plan", "goal")
        c = "plan" in report, "plan" in ("plan", "goal")
    """
    fields = frozenset({"plan", "sites"})
    reads = found(counts.string_reads(parsed(text), fields))
    assert sorted(reads) == sorted(["report['plan']['sites']", "report['plan']", "report.get('plan', {})"])
    for room in ("emit/table.py", "base/typed.py", "documents/run.py", "quant/plan_reading.py"):
        assert not found(counts.string_reads(parsed(text, room), fields))


def test_readers_of_pairs() -> None:
    text = 'PAIRS = ("QuantizeLinear", "DequantizeLinear")\n"""Of a DequantizeLinear."""\n'
    assert len(found(counts.pair_readers(parsed(text)))) == 1
    assert not found(counts.pair_readers(parsed(text, "graph/pairs.py")))
    assert len(found(counts.pair_readers(parsed("found = node.op == DEQUANTIZE")))) == 1


def test_setters_of_carriers() -> None:
    text = """
        class Job:
            def __init__(self): self.model = 1
            def upgrade(self): self.model, self.other[0] = 2, 3
        class Other:
            def change(self):
                self.model = 2
                self._job.model = 3
                prepared.plan, mine.plan = 1, 2
    """
    setters = found(counts.carrier_setters(parsed(text)))
    assert sorted(setters) == ["prepared.plan", "self._job.model", "self.model"]
    assert not found(counts.carrier_setters(parsed(text, "quant/planted.py")))


def test_places_of_int8() -> None:
    text = """
        low, high = -128, 127  # one place: a line
        scale = amax / 127.0
        kind = np.int8 if format == "int8" else np.uint8
        block = 128, True, 1127, "int8 or not"
        kind = TensorProto.INT8
        planned = engine.int8 + INT8.greatest  # a document's field, and what a format says
    """
    assert [place.line for place in counts.int8_grid(parsed(text))] == [2, 3, 4, 6]
    assert not found(counts.int8_grid(parsed(text, "formats/int8.py")))


def test_logical_lines() -> None:
    text = '''
    """The module's."""
    # a comment
    def f(
        a,
        b,
    ):
        """Its own.

        More of it."""
        text = """no
        docstring"""
        return a + \\
            b
    '''
    assert [place.line for place in counts.logical_lines(parsed(text))] == [4, 11, 13]


def test_the_package_is_counted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
                                tmp_path: Path) -> None:  # fmt: skip
    (tmp_path / "onnxq").mkdir()
    (tmp_path / "onnxq/__init__.py").write_text('x = report["plan"]\n', "utf-8")
    (tmp_path / "docs/schemas").mkdir(parents=True)
    schema = {"$defs": {"Run": {"properties": {"plan": {}}}}}
    (tmp_path / "docs/schemas/report.schema.json").write_text(json.dumps(schema), "utf-8")
    monkeypatch.setattr(counts, "entered", lambda tree: frozenset())
    monkeypatch.setattr("sys.argv", ["counts", "--tree", str(tmp_path), "--json"])
    assert counts.main() == 0
    said = json.loads(capsys.readouterr().out)
    assert said["reads"] == {"places": 1, "files": 1, "parts": {"(root)": 1}}
    assert {name: row["places"] for name, row in said.items()} == dict.fromkeys(counts.TITLES, 0) | {
        "reads": 1, "lines": 1, "files": 1,
    }  # fmt: skip
    assert counts.package("cli/pages/model.py") == "cli/pages"
    monkeypatch.setattr("sys.argv", ["counts", "--tree", str(tmp_path), "--places", "reads"])
    assert counts.main() == 0
    assert capsys.readouterr().out == "onnxq/__init__.py:1: report['plan']\n"


def test_words_written_by_hand(tmp_path: Path) -> None:
    (tmp_path / "docs/reference").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# A title\n\na word a word\n", "utf-8")
    (tmp_path / "docs/page.md").write_text("one\n", "utf-8")
    (tmp_path / "docs/reference/made.md").write_text("of the code\n", "utf-8")
    words = list(counts.written_words(tmp_path))
    assert len(words) == len(set(words)) == 8
    assert {str(word) for word in words} >= {"onnxq/../README.md:3: 3 word", "onnxq/../docs/page.md:1: 0 one"}


def test_sentences() -> None:
    text = """
        '''What this file is about, in words.'''
        WHY = "nothing is said of this", f"the {layer} is left in float", "three short words"
        PATTERN = r"\\bno importer registered for op", "(?i)of no other word here"
        def f():
            '''What this does, in words.'''
            raise UserError(f"there is no {name} in this file", hint="give a name that is there")
    """
    said = found(counts.sentences(parsed(text)))
    assert said == ["nothing is said of this", "the  is left in float"]
    assert not found(counts.sentences(parsed(text, "report/planted.py")))


def test_sentences_of_errors() -> None:
    text = """
        class Odd(ValueError): ...
        class Stranger(Odd): ...
        class Found: ...
        AGAIN = "export the model once more"
        BOTH = "this is said of both"
        def invalid(where: str, what: str) -> Stranger:
            more = "it is not as it was"
            return make(where, f"{more}, or it is not so")
        def found(what: str) -> Found:
            return Found("here is what was found")
        def check(model):
            what = "a node has no name"
            what += " and no operator in it"
            note = "a note is no error"
            yield invalid(model, what), found("there is one of it"), note
            yield read(model, hint=AGAIN), invalid(model, BOTH), BOTH
        def other(model):
            what = "a node has a name"
            return what
    """
    said = found(counts.sentences(parsed(text)))
    assert sorted(said) == sorted([
        "this is said of both", "here is what was found", "a note is no error", "there is one of it",
        "a node has a name",
    ])  # fmt: skip


def test_sentences_of_constants_that_other_files_read() -> None:
    file = parsed('AGAIN = "export the model once more"')
    error = parsed("from planted import AGAIN\nraise ValueError(AGAIN)", "pipeline/error.py")
    note = parsed("import planted\nnote(planted.AGAIN)", "pipeline/note.py")
    assert len(found(counts.sentences(file))) == len(found(counts.sentences(file + error + note))) == 1
    assert not found(counts.sentences(file + error))


def test_sentences_that_are_help_or_syntax() -> None:
    text = """
        HELP = "what is written where nothing is"
        MODEL = Annotated[Path, typer.Argument(metavar="MODEL", help="the model that is read")]
        def verb(model, out: Annotated[Path, typer.Option("-o", help=HELP)]): ...
        LAYOUT = "detect:boxes=here,scores=there,label=none,xyxy"
        KINDS = "no importer for|no such op", "any .* of these words"
    """
    assert not found(counts.sentences(parsed(text)))


def test_classes_that_hold_a_sentence() -> None:
    text = """
        class Fact:
            code: str
            value: float
        class Reason:
            code: str
            why: str
    """
    assert found(counts.classes_with_sentences(parsed(text))) == ["Reason"]


def test_fields_that_are_assigned_late() -> None:
    text = """
        class Search:
            def __init__(self):
                self.best = self.tried = 0
            def run(self):
                self.best, self._done[0], other.found = 1, 2, 3
                self.best += 1
                self.left: int = 4
    """
    assert sorted(found(counts.late_fields(parsed(text)))) == ["Search.best", "Search.left"]


def test_lines_of_what_is_entered() -> None:
    text = """
        @decorated
        def entered():
            def inner():
                return 1
            return inner
        def other():
            return 2
    """
    lines = counts.entered_lines(parsed(text), frozenset({("pipeline/planted.py", 2)}))
    assert sorted(place.line for place in lines) == [3, 4, 5, 6]
