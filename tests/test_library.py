"""The library: a function for each verb, nothing printed or left changed, results that say what they are."""

from __future__ import annotations

import inspect
import logging
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
import typer
from PIL import Image

import onnxq
from onnxq.cli.app import app
from onnxq.cli.bar import bar
from onnxq.config import load_config
from onnxq.errors import UserError
from onnxq.option import read_options
from onnxq.pipeline import result as results
from onnxq.pipeline.looking import ShapeFed
from onnxq.settings import GROUPS, DataPlace, Keywords

ROOT = Path(__file__).resolve().parents[1]
NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 32, 8] x) => (float[N, 32, 16] y) {
        ["<script>alert(1)</script>"] a = MatMul (x, w) [relu] y = Relu (a) }"""

# The functions of verbs that are not called as these, or have several.
FUNCTIONS = {
    "run": ["run_pieces"], "data": ["look"], "calibrate": ["calibrate", "merge_stats"],
    "inspect": ["inspect", "describe", "describe_tensor", "draw"],
    "list": ["list_rules"], "explain": ["explain_rule", "explain_message"], "test": ["try_rules"],
    "page": ["rules_page"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `net.onnx`, a copy in float that is nearly it, and `data.npz`."""
    place = tmp_path_factory.mktemp("library")
    model = onnx.parser.parse_model(NET)
    weights = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, place / "net.onnx")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights * np.float32(1.01), "w"))
    onnx.save(model, place / "near.onnx")
    x = np.random.default_rng(1).standard_normal((24, 32, 8)).astype(np.float32)
    np.savez(place / "data.npz", x=x)
    return place


@pytest.fixture(scope="module")
def heard(folder: Path) -> SimpleNamespace:
    """A run of `quantize` in a process of its own, of which all is heard and the state is compared."""
    code = """
import ctypes, gc, logging, os, signal, sys, warnings
import numpy as np
import onnxq

def state():
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    return (dict(os.environ), list(warnings.filters), handlers, np.geterr(), gc.isenabled(), os.getcwd(),
            logging.getLogger().handlers, sys.excepthook, ctypes.CDLL is Real)

Real = ctypes.CDLL
asked = []
ctypes.CDLL = lambda *given: asked.append(given) or Real(*given)
import onnxruntime, onnxq.pipeline
ctypes.CDLL = Real
import onnxq.heap
onnxq.heap.steady_heap = lambda: asked.append("mallopt")
before = state()
result = onnxq.quantize("net.onnx", "data.npz", samples=8, compile=False, repair="none")
assert state() == before
assert asked == [], asked
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return SimpleNamespace(code=ran.returncode, out=ran.stdout, err=ran.stderr)


def test_quantize_prints_nothing_and_leaves_the_process_as_it_was(heard: SimpleNamespace) -> None:
    assert (heard.out, heard.err, heard.code) == ("", "", 0)


def test_import_takes_nothing_heavy() -> None:
    """Seconds vary with the machine: what is imported does not. The options alone take 30 ms."""
    code = (
        "import sys; before = set(sys.modules); import onnxq; new = set(sys.modules) - before; "
        "print(*sorted(new))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    new = ran.stdout.split()
    assert [name for name in new if name.startswith("onnxq")] == ["onnxq", "onnxq.version"]
    assert not {"dataclasses", "inspect", "logging", "pathlib", "tomllib", "difflib", "numpy"} & set(new)


def verbs() -> list[str]:
    command = typer.main.get_command(app)
    own = list(command.commands)  # type: ignore[attr-defined]
    return [*(name for name in own if name != "rules"), *command.commands["rules"].commands]  # type: ignore[attr-defined]


@pytest.mark.parametrize("verb", verbs())
def test_every_verb_is_a_function(verb: str) -> None:
    for name in FUNCTIONS.get(verb, [verb]):
        function = getattr(onnxq, name)
        assert name in onnxq.__all__
        assert name in dir(onnxq)
        assert len(inspect.getdoc(function) or "") > 40


def test_the_long_verbs_are_observed_alike() -> None:
    for name in (
        "quantize", "plan", "sensitivity", "calibrate", "sanitize", "check", "look", "compare", "analyze",
        "engine", "split", "run_pieces", "extract", "init", "try_rules",
    ):  # fmt: skip
        assert inspect.signature(getattr(onnxq, name)).parameters["observe"].default is None, name


def test_dir_and_help_know_all() -> None:
    assert set(onnxq.__all__) <= set(dir(onnxq))
    assert all(getattr(onnxq, name) is not None for name in onnxq.__all__)
    text = pydoc.plain(pydoc.render_doc(onnxq))
    for name in ("quantize(", "compare(", "look(", "class Calibration", "class UserError"):
        assert name in text
    text = pydoc.plain(pydoc.render_doc(onnxq.quantize))
    assert "method: 'str' = 'auto'" in text
    assert "method: How ranges are chosen: auto, minmax" in text
    with pytest.raises(AttributeError, match="no attribute 'quantise'"):
        onnxq.quantise  # type: ignore[attr-defined]  # noqa: B018


class Known(Exception):
    """What `Keywords` knows when a function has handed out all of its own."""


@pytest.mark.parametrize(
    "name", ["quantize", "plan", "sensitivity", "calibrate", "sanitize", "check", "diff", "compare", "look"]
)
def test_a_signature_has_the_options_that_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(self: Keywords, own: Any) -> None:
        raise Known(set(self._known))

    monkeypatch.setattr(Keywords, "end", end)
    function = getattr(onnxq, name)
    signature = inspect.signature(function)
    needed = [p for p in signature.parameters.values() if p.default is p.empty]
    with pytest.raises(Known) as found:
        function(*("nothing" for _ in needed))
    (known,) = found.value.args
    every = {option for group in GROUPS for option in read_options(group)}
    own = set(inspect.signature(function, follow_wrapped=False).parameters) & every
    assert known - {"samples"} == own - {"samples"}


def test_steps_are_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    with caplog.at_level(logging.DEBUG, "onnxq"):
        onnxq.sanitize(folder / "net.onnx", observe=lambda step, done, total: seen.append(step))
    steps = [record.message for record in caplog.records if record.levelno == logging.INFO]
    assert steps == seen
    assert steps[:2] == ["load", "sanitize"]
    assert any(
        record.levelno == logging.DEBUG and record.message.startswith("load: ") for record in caplog.records
    )
    assert [type(handler) for handler in logging.getLogger("onnxq").handlers] == [logging.NullHandler]


def test_choose_says_of_what_and_how_much(folder: Path) -> None:
    told: list[tuple[str, int | None, int | None]] = []
    onnxq.quantize(
        folder / "net.onnx", folder / "data.npz", compile=False, repair="none",
        observe=lambda *step: told.append(step),
    )  # fmt: skip
    chosen = [step for step in told if step[0].startswith("choose: ")]
    name, done, total = chosen[-1]
    assert name.endswith((" methods", " thresholds"))
    assert done == total
    for step in {name for name, _, _ in chosen}:
        counts = [done for name, done, _ in chosen if name == step]
        assert counts == sorted(counts)


# -- what results say ------------------------------------------------------------------------------------


def test_what_is_returned_is_short(folder: Path, tmp_path: Path) -> None:
    model, data = folder / "net.onnx", folder / "data.npz"
    found = [
        onnxq.quantize(model, data, method="minmax", compile=False, repair="none"),
        onnxq.plan(model),
        onnxq.sanitize(model),
        onnxq.check(model, compile=False),
        onnxq.inspect(model),
        onnxq.describe(model),
        onnxq.describe_tensor(model, "w"),
        onnxq.compare(model, folder / "near.onnx", data),
        onnxq.look(model, data),
        onnxq.list_rules(),
        onnxq.explain_rule("fold_batchnorm"),
        onnxq.explain_message("No importer registered for op: NonZero"),
        onnxq.init(model, output=tmp_path / "onnxq.toml"),
    ]
    for one in found:
        text = repr(one)
        assert type(one).__name__ not in text, text  # its words, and not that they failed
        assert len(text) <= 620
        assert text.count("\n") <= 1
        page = one._repr_html_()
        assert "<script" not in page
        assert page.count("<table>") == page.count("</table>")
    quantized = repr(found[0])
    assert "dB about the mean" in quantized
    assert "int8 is 100.0 % of the eligible MACs" in quantized


def test_words_are_escaped_and_short() -> None:
    report = {
        "model": "\x1b[31m<img src=x onerror=alert(1)>‮" + "n" * 2000, "nodes": 1, "target": "t",
        "changes": [], "about_mean": None, "engine": {"status": "not-run", "reason": ""},
        "plan": {
            "int8_share_of_eligible_macs": None, "layers": [],
            "kept_float": [{"node": "<script>", "op": "Conv", "because": '"&'}],
        },
    }  # fmt: skip
    found = results.Result(onnx.ModelProto(), report)
    assert len(repr(found)) <= 620
    assert "\x1b" not in repr(found)
    assert "‮" not in repr(found)
    page = found._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<img" not in page
    assert "<script" not in page
    assert "&quot;&amp;" in page
    assert "\x1b" not in page
    assert repr(results.Result(onnx.ModelProto(), {})) == "<Result>"  # half made: no error in a debugger


# -- documents -------------------------------------------------------------------------------------------


def test_compare_measures(folder: Path) -> None:
    found = onnxq.compare(folder / "net.onnx", folder / "near.onnx", folder / "data.npz", samples=4)
    (y,) = found.accuracy
    assert (found.kind, y.samples, found.met) == ("comparison", 4, True)
    assert y.sqnr_db == pytest.approx(40, abs=0.01)  # each output is 1 % larger
    missed = onnxq.compare(folder / "net.onnx", folder / "near.onnx", folder / "data.npz", min_sqnr=60)
    assert not missed.met
    with pytest.raises(UserError, match="compare has no option 'max_float'"):
        onnxq.compare(folder / "net.onnx", folder / "near.onnx", folder / "data.npz", goal={"max_float": 0.1})


def test_look_writes_no_sheet_that_is_not_asked_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = onnxq.look(folder / "net.onnx", folder / "data.npz", samples=3)
    assert (found.samples, found.count, found.sheet) == (3, 24, None)
    assert found.inputs[0].shapes == (ShapeFed((1, 32, 8), 3),)
    assert os.listdir(tmp_path) == []
    with pytest.raises(UserError, match="no input is an image"):
        onnxq.look(folder / "net.onnx", folder / "data.npz", sheet="x.png")


def test_rules_as_functions() -> None:
    listed = {rule.id for rule in onnxq.list_rules().rules}
    assert {"fold_batchnorm", "unfuse_gelu"} <= listed
    assert onnxq.explain_rule("fold_batchnorm").rule.doc
    with pytest.raises(UserError, match="there is no rule 'fold_batchnrm'"):
        onnxq.explain_rule("fold_batchnrm")
    with pytest.raises(UserError, match="folders of rules are"):
        onnxq.list_rules("mine")


# -- init ------------------------------------------------------------------------------------------------


@pytest.fixture
def first(folder: Path, tmp_path: Path) -> Path:
    """The settings of the model and of images for it, in a folder of their own."""
    output = tmp_path / "onnxq.toml"
    onnxq.init(folder / "net.onnx", folder / "data.npz", output)
    return output


def test_first_settings_are_the_defaults(first: Path, folder: Path) -> None:
    read = load_config(first, named=False)  # as it is found in the folder
    assert set(read.options) == {DataPlace}
    assert read.of(DataPlace) == {"path": folder / "data.npz"}
    assert read.layers == ()


def test_every_option_is_there_and_may_be_taken(first: Path, tmp_path: Path) -> None:
    lines = first.read_text("utf-8").split("\n# What is different for some layers")[0].splitlines()
    every = {
        (said.tables[0], said.key, group, name)
        for group in GROUPS
        for name, said in read_options(group).items()
    }
    table, found = "", set()
    for line in lines:
        if line.startswith("["):
            table = line.strip("[]")
        key = line.removeprefix("# ").partition(" = ")[0]
        options = [option for option in every if option[:2] == (table, key)]
        if " = " not in line or not options:
            continue
        ((_, _, group, name),) = options
        taken = tmp_path / "taken.toml"
        taken.write_text((f"[{table}]\n" if table else "") + line.removeprefix("# ") + "\n", "utf-8")
        value = load_config(taken).of(group)[name]
        default = group.__dataclass_fields__[name].default
        assert value == default or default in (None, ()), line
        found |= set(options)
    assert found == every


def test_first_settings_keep_what_is_there(first: Path, folder: Path) -> None:
    before = first.read_bytes()
    with pytest.raises(UserError, match="exists, and may have been edited"):
        onnxq.init(folder / "net.onnx", None, first)
    assert first.read_bytes() == before
    found = onnxq.init(folder / "net.onnx", None, first, force=True)
    assert (found.filled, found.data) == ({}, None)
    assert load_config(first).options == {}


def test_what_model_and_data_suggest(tmp_path: Path) -> None:
    """A model that divides its pixels itself, and a name that TOML and comments have to survive."""
    name = 'x"\n[evil]\x7f'
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) <float c = {255}> { y = Div (x, c) }"""
    )
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    onnx.save(model, tmp_path / "net.onnx")
    (tmp_path / "images").mkdir()
    Image.new("RGB", (8, 8), "red").save(tmp_path / "images/0.png")
    output = tmp_path / "mine.toml"
    found = onnxq.init(tmp_path / "net.onnx", tmp_path / "images", output)
    assert found.suggested["images.preset"] == '"raw"'
    assert found.suggested["inputs.assume"] == "{N = 1}"
    assert load_config(output).of(DataPlace) == {"path": tmp_path / "images"}
    uncommented = output.read_text("utf-8").replace("# shape = ", "shape = ")
    output.write_text(uncommented, "utf-8")
    (group,) = (one for one in load_config(output).options if one.__name__ == "Inputs")
    assert load_config(output).of(group) == {"shapes": {name: (1, 3, 8, 8)}}


# -- the bar ---------------------------------------------------------------------------------------------


def test_a_bar_without_a_terminal_is_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with bar() as observe:
        observe("load", None, None)
        observe("choose: 3 methods", 3, 9)
    assert capsys.readouterr() == ("", "onnxq: load\nonnxq: choose\n")


def test_a_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No IPython is installed here: this is what it is asked for."""
    written: list[str] = []
    handle = SimpleNamespace(update=lambda data, raw: written.append(data["text/html"]))
    shown = SimpleNamespace(display=lambda data, raw, display_id: handle)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    monkeypatch.setitem(sys.modules, "IPython", shell)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", shown)  # type: ignore[arg-type]
    with bar() as observe:
        observe("<b>", None, None)
        for done in range(1, 1001):
            observe("calibrate", done, 1000)
    assert written[0].startswith("&lt;b&gt;")
    assert written[-1] == 'calibrate <progress value="1000" max="1000"></progress> 1000 of 1000'
    assert len(written) < 100
    assert capsys.readouterr() == ("", "")


# -- types and completion --------------------------------------------------------------------------------


def test_a_script_of_a_users_is_typed(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    assert (ROOT / "onnxq/py.typed").is_file()
    script = tmp_path / "script.py"
    script.write_text(
        "import onnxq\n"
        "settings = onnxq.Calibration(method='mse')\n"
        "level: str = settings.method\n"
        "try:\n"
        "    onnxq.Goal(min_sqnr=30)\n"
        "except onnxq.UserError as error:\n"
        "    hint: str = error.hint\n"
        "reveal_type(onnxq.Division().workers)\n"
        "reveal_type(onnxq.quantize('a.onnx', method='mse').save('b.onnx'))\n"
        "settings.no_such\n",
        "utf-8",
    )
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\nfollow_imports = silent\nmypy_path = {ROOT}\n", "utf-8")
    out, err, _ = api.run(
        [
            "--strict",
            "--config-file",
            str(config),
            "--cache-dir",
            str(ROOT / ".mypy_cache/users"),
            str(script),
        ]
    )
    errors = [line for line in out.splitlines() if "error:" in line]
    revealed = re.findall(r'Revealed type is "(?:builtins\.)?([a-zA-Z.\[\]]+)"', out)
    assert revealed == ["int", "list[pathlib.Path]"], out + err
    assert len(errors) == 1, out
    assert 'has no attribute "no_such"' in errors[0]


def test_completion_is_on() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "onnxq"],
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "_ONNXQ_COMPLETE": "complete_bash",
            "COMP_WORDS": "onnxq sens", "COMP_CWORD": "1",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout.split() == ["sensitivity"], ran.stderr
