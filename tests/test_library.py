"""The library: a function for each verb, nothing printed or left changed, results that say what they are."""

from __future__ import annotations

import contextlib
import html
import inspect
import logging
import os
import pydoc
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
import onnx
import onnx.parser
import pytest
import typer
from PIL import Image
from rich.progress import Progress
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.base.shown import Shown
from onnxq.base.typed import typed
from onnxq.cli import screen
from onnxq.cli.app import app
from onnxq.cli.bar import bar
from onnxq.cli.screen import Screen, _Counts, in_words
from onnxq.documents.report import Report
from onnxq.inspection.data_seen import ShapeFed
from onnxq.options.config import load_config
from onnxq.options.grouped import KEYWORDS, Options, options_of
from onnxq.options.option import read_options
from onnxq.options.settings import GROUPS, DataPlace, ImageOptions
from onnxq.options.verbs import VERBS as DECLARED
from onnxq.pipeline import result as results
from tests.as_measured import as_measured

ROOT = Path(__file__).resolve().parents[1]
NET = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 32, 8] x) => (float[N, 32, 16] y) {
        ["<script>alert(1)</script>"] a = MatMul (x, w) [relu] y = Relu (a) }"""

# The functions of verbs that are not called as these, or have several.
FUNCTIONS = {
    "run": ["run_pieces"], "data": ["look"], "calibrate": ["calibrate", "merge_stats"],
    "engine": ["engine", "draw"], "report": ["report", "diff"],
    "inspect": ["inspect", "describe", "describe_tensor", "draw"],
    "list": ["list_rules"], "explain": ["explain_rule", "explain_message"], "test": ["try_rules"],
    "page": ["rules_page"],
    "help": ["explain_word", "symptoms", "list_schemas", "schema"], "activations": ["statistics"],
}  # fmt: skip


EXPORTED = [name for name in onnxq.__all__ if inspect.isfunction(getattr(onnxq, name))]

# What returns neither a document nor a result.
PLAIN = {"bar", "draw", "rules_page", "schema"}

# What is over before one looks: nobody observes it.
QUICK = {
    "bar", "describe", "describe_tensor", "diff", "draw", "explain_message", "explain_rule", "explain_word",
    "inspect", "decide",
    "list_rules", "list_schemas", "merge_stats", "rules_page", "schema", "symptoms",
}  # fmt: skip

# Flags about the screen and the exit code, which a function has not; CSV is the rows of what it returns.
ON_SCREEN = {
    "help",
    "quiet",
    "verbose",
    "as_json",
    "all_rows",
    "csv",
    "strict",
    "exit_zero",
    "config",
    "help_all",
}

# Flags whose keyword has another name, "" for none: it is another function, or what is shown of the result.
RENAMED = {
    ("", "path"): "data", ("", "script"): "data", ("", "op"): "ops",
    ("analyze", "match"): "layers", ("analyze", "threshold"): "thresholds", ("report", "show"): "open",
    ("help", "show"): "open", ("quantize", "budget"): "",
    ("calibrate", "merge"): "parts", ("inspect", "tensor"): "name", ("inspect", "nodes"): "match",
    ("inspect", "dot"): "found", ("inspect", "csv"): "", ("inspect", "force"): "",
    ("check", "report"): "", ("check", "form"): "", ("check", "force"): "",
    ("engine", "dot"): "found", ("engine", "force"): "",
    ("page", "output"): "", ("check", "match"): "", ("check", "op"): "", ("sensitivity", "match"): "",
    ("sensitivity", "op"): "",
    ("activations", "force"): "", ("weights", "force"): "", ("memory", "force"): "",
    ("analyze", "force"): "",
}  # fmt: skip

# Keywords for groups of options, for data, and for whom is told.
GROUPED = {
    "accuracy", "calibration", "compilation", "data", "details", "division", "feeding", "format", "goal",
    "images",
    "inputs", "margins", "observe", "ranking", "repairs", "runtime",
}  # fmt: skip

# Options that are keys of `onnxq.toml`, and no flags.
IN_FILE = {
    name
    for one in DECLARED.values()
    for group in one.groups
    for name in one.options(group).keys() - one.flags(group).keys()
}

# Keywords for what the command line takes from `onnxq.toml`, keeps in a file of its own, or always does.
IN_PYTHON = {
    "calibrate": {"executor"}, "quantize": {"executor", "layers", "ready", "state", "submit"},
    "sensitivity": {"executor", "layers", "state", "submit"},
    "plan": {"layers"}, "bundle": {"layers"}, "activations": {"histograms"}, "weights": {"histograms"},
    "analyze": {"histogram"}, "check": {"again"},
}  # fmt: skip


def takes_options(name: str) -> bool:
    function = inspect.unwrap(getattr(onnxq, name))
    return bool(function.__code__.co_flags & inspect.CO_VARKEYWORDS)


def verbs() -> dict[str, Any]:
    """The commands by name, those of groups by their own."""
    commands = typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
    return {key: one for name, it in commands for key, one in getattr(it, "commands", {name: it}).items()}


VERBS = verbs()


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


STATE = """
import ctypes, decimal, gc, locale, logging, os, random, resource, signal, socket, sys, tempfile, threading
import warnings
import numpy as np, onnxruntime, threadpoolctl
from PIL import Image, ImageFile
import onnxq

asked = []

class Heard(ctypes.CDLL):
    def __getattr__(self, name):
        asked.extend([name] * (name in ("mallopt", "prctl", "setlocale", "nice")))
        return super().__getattr__(name)

ctypes.CDLL = Heard

def state():
    loggers = [logging.getLogger(), *map(logging.getLogger, sorted(logging.root.manager.loggerDict))]
    mask = os.umask(0o22); os.umask(mask)
    return {
        "environment": dict(os.environ), "folder": os.getcwd(), "mask": mask, "nice": os.nice(0),
        "processors": os.sched_getaffinity(0), "locale": locale.setlocale(locale.LC_ALL),
        "limits": [resource.getrlimit(n) for n in range(16)],
        "warnings": (list(warnings.filters), warnings.showwarning),
        "signals": {n: signal.getsignal(n) for n in signal.valid_signals()}, "timer": signal.getitimer(0),
        "masked": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "numpy": (np.geterr(), np.geterrcall(), np.get_printoptions()),
        "chance": (random.getstate(), str(np.random.get_state())),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks)),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook),
        "interpreter": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode),
        "imports": (list(sys.path), list(sys.meta_path), list(sys.path_hooks)),
        "streams": (sys.stdout, sys.stderr), "traced": sys.gettrace(),
        "pools": [(one["filepath"], one["num_threads"]) for one in threadpoolctl.threadpool_info()],
        "threads": threading.enumerate(), "sockets": socket.getdefaulttimeout(),
        "pixels": (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES),
        "logs": {one.name: (one.level, one.propagate, list(one.handlers)) for one in loggers},
        "decimals": decimal.getcontext().prec, "files": sorted(os.listdir(tempfile.gettempdir())),
    }

def run():
    result = onnxq.quantize("net.onnx", "data.npz", samples=8, method="mse")
    result.save("made/net.onnx", force=True)
    onnxq.analyze("net.onnx", "made/net.onnx", "data.npz", samples=2)
    onnxq.statistics("net.onnx", "data.npz", samples=2)
    onnxq.check("net.onnx", compile=False)
    onnxq.report("made/net.report.json")

import onnxq.pipeline, onnxq.inspection.analyzing, onnxq.inspection.checking, onnxq.run.trt
before = state()
run()
after = state()
changed = {part: (was, after[part]) for part, was in before.items() if was != after[part]}
assert not changed, changed
assert asked == [], asked
"""


@pytest.fixture(scope="module")
def heard(folder: Path) -> SimpleNamespace:
    """Runs in a process of their own, of which all is heard and the state is compared."""
    (folder / "made").mkdir()
    (folder / "temporary").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "temporary")}
    ran = subprocess.run(
        [sys.executable, "-c", STATE],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return SimpleNamespace(code=ran.returncode, out=ran.stdout, err=ran.stderr)


def test_nothing_is_printed_and_the_process_is_as_it_was(heard: SimpleNamespace) -> None:
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
    assert [name for name in new if name.startswith("onnxq")] == ["onnxq", "onnxq.base", "onnxq.base.version"]
    assert not {"dataclasses", "inspect", "logging", "pathlib", "tomllib", "difflib", "numpy"} & set(new)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_a_function(verb: str) -> None:
    for name in FUNCTIONS.get(verb, [verb]):
        function = getattr(onnxq, name)
        assert name in onnxq.__all__
        assert name in dir(onnxq)
        assert len(inspect.getdoc(function) or "") > 40


def test_every_function_is_of_a_verb() -> None:
    assert {name for verb in VERBS for name in FUNCTIONS.get(verb, [verb])} == set(EXPORTED) - {"bar"}


@pytest.mark.parametrize("verb", VERBS)
def test_flags_and_keywords_are_the_same(verb: str) -> None:
    """Nothing is only on the command line, or only in Python, but what is said above."""
    names = FUNCTIONS.get(verb, [verb])
    parameters = {
        k: p for name in names for k, p in inspect.signature(getattr(onnxq, name)).parameters.items()
    }
    flags = {p.name for p in VERBS[verb].params if p.param_type_name == "option"} - ON_SCREEN
    saved = [
        inspect.signature(kind.save).parameters for kind in map(returned_type, names) if hasattr(kind, "save")
    ]
    written = flags & {"output", "force", "page", "deploy"} - set(parameters) if saved else set()
    assert all({"path" if name == "output" else name} <= {*saved[0], "path"} for name in written)
    pixels = set(read_options(ImageOptions)) & flags
    assert not pixels or "images" in parameters
    known = {RENAMED.get((verb, name), RENAMED.get(("", name), name)) for name in flags - written - pixels}
    known -= {""}
    assert known <= set(parameters)
    arguments = {p.name for p in VERBS[verb].params if p.param_type_name == "argument"}
    rest = set(parameters) - known - arguments - GROUPED - IN_FILE - IN_PYTHON.get(verb, set())
    assert {p for p in rest if parameters[p].kind is inspect.Parameter.KEYWORD_ONLY} == set()


def returned_type(name: str) -> Any:
    return get_type_hints(inspect.unwrap(getattr(onnxq, name)))["return"]


@pytest.mark.parametrize("name", EXPORTED)
def test_what_takes_long_is_observed(name: str) -> None:
    observed = inspect.signature(getattr(onnxq, name)).parameters.get("observe")
    assert (observed is None) == (name in QUICK)
    assert observed is None or observed.default is None


def test_dir_and_help_know_all() -> None:
    assert set(onnxq.__all__) <= set(dir(onnxq))
    assert all(getattr(onnxq, name) is not None for name in onnxq.__all__)
    text = pydoc.plain(pydoc.render_doc(onnxq))
    for name in ("quantize(", "compare(", "look(", "class Calibration", "class UserError"):
        assert name in text
    text = pydoc.plain(pydoc.render_doc(onnxq.quantize))
    assert "method: 'str' = 'auto'" in text
    assert "auto, minmax" in text
    with pytest.raises(AttributeError, match="no attribute 'quantise'"):
        onnxq.quantise  # type: ignore[attr-defined]  # noqa: B018


class Known(Exception):
    """The name by which a function asks for its options."""


@pytest.mark.parametrize("name", [name for name in EXPORTED if takes_options(name)])
def test_a_signature_has_the_options_that_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def of(function: str, options: object) -> None:
        raise Known(function)

    monkeypatch.setattr(Options, "of", of)
    function = getattr(onnxq, name)
    signature = inspect.signature(function)
    needed = [p for p in signature.parameters.values() if p.default is p.empty]
    with pytest.raises(Known) as found:
        function(*("nothing" for _ in needed))
    assert found.value.args == (name,)
    code = inspect.unwrap(function).__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    groups = options_of(name)
    known = {KEYWORDS[group] for group in groups} | {one for options in groups.values() for one in options}
    assert known == set(signature.parameters) - set(own)


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


@pytest.fixture(scope="module")
def returned(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each function returns, by its name."""
    model, data, near = folder / "net.onnx", folder / "data.npz", folder / "near.onnx"
    place = tmp_path_factory.mktemp("returned")
    fast: dict[str, Any] = {"method": "minmax", "repair": "none"}
    found: dict[str, Any] = {}
    found["quantize"] = onnxq.quantize(model, data, compile=False, **fast)
    found["quantize"].save(place / "a.onnx", page=False)
    run = place / "a.report.json"
    found["sanitize"] = onnxq.sanitize(model)
    found["plan"] = onnxq.plan(model)
    found["bundle"] = onnxq.bundle(model, data, place / "bundle", **fast)
    found["decide"] = onnxq.decide(as_measured(place / "bundle"))
    found["sensitivity"] = onnxq.sensitivity(model, data, top=0, **fast)
    found["calibrate"] = onnxq.calibrate(model, data, place / "0.stats.npz", shard=(1, 2))
    onnxq.calibrate(model, data, place / "1.stats.npz", shard=(2, 2))
    parts = [place / f"{part}.stats.npz" for part in (0, 1)]
    found["merge_stats"] = onnxq.merge_stats(parts, place / "all.stats.npz")
    found["check"] = onnxq.check(model, compile=False)
    found["inspect"] = onnxq.inspect(model)
    found["describe"] = onnxq.describe(model)
    found["describe_tensor"] = onnxq.describe_tensor(model, "w")
    found["compare"] = onnxq.compare(model, near, data)
    found["analyze"] = onnxq.analyze(model, near, data)
    found["statistics"] = onnxq.statistics(model, data)
    found["weights"] = onnxq.weights(model, place / "a.onnx")
    found["memory"] = onnxq.memory(model, place / "a.onnx")
    found["look"] = onnxq.look(model, data)
    found["diff"] = onnxq.diff(run, run)
    found["report"] = onnxq.report(run)
    found["split"] = onnxq.split(model, at=["a"])
    found["run_pieces"] = onnxq.run_pieces(found["split"].save(place / "net")[-1], data)
    found["extract"] = onnxq.extract(model, end=["a"])
    found["list_rules"] = onnxq.list_rules()
    found["list_schemas"] = onnxq.list_schemas()
    found["explain_word"] = onnxq.explain_word()
    found["symptoms"] = onnxq.symptoms()
    found["explain_rule"] = onnxq.explain_rule("fold_batchnorm")
    found["explain_message"] = onnxq.explain_message("No importer registered for op: NonZero")
    (place / "rules").mkdir()
    shutil.copy(ROOT / "tests/own_rules/both_branches.py", place / "rules")
    found["try_rules"] = onnxq.try_rules(place / "rules")
    found["init"] = onnxq.init(model, output=place / "onnxq.toml")
    kernels = place / "layers.json"
    kernels.write_text('{"Layers": [{"Name": "k", "LayerType": "gemm", "Metadata": "[ONNX Layer: relu]"}]}')
    found["engine"] = onnxq.engine(model, layer_info=kernels)
    return found


@pytest.mark.parametrize("name", [name for name in EXPORTED if name not in PLAIN])
def test_what_is_returned_is_short(name: str, returned: dict[str, Any]) -> None:
    kind = returned_type(name)
    assert issubclass(kind, Shown)
    assert getattr(onnxq, kind.__name__) is kind  # for annotations
    assert kind.words is not Shown.words
    one = returned[name]
    assert type(one) is kind
    text = repr(one)
    assert not text.startswith((f"{kind.__name__}(", f"<{kind.__name__}")), text  # words that do not fail
    assert len(text) <= 620
    assert text.count("\n") <= 1
    assert not re.search(r"\bNone\b|\{|<.* object", text), text
    page = one._repr_html_()
    assert html.escape(text.splitlines()[0])[:80] in page
    assert "<script" not in page
    assert page.count("<table>") == page.count("</table>")


def test_words_have_the_figures(returned: dict[str, Any]) -> None:
    quantized = repr(returned["quantize"])
    assert "about the mean" in quantized
    assert is_said(quantized, "share-of-work", format="int8", percent="100.0")
    assert "2 pieces" in repr(returned["split"])
    assert "from x to a" in repr(returned["extract"])
    assert repr(returned["merge_stats"]).startswith("statistics of 2 tensors, 21 samples\n")
    assert "tensors, 11 samples\n" in repr(returned["calibrate"])
    assert "1, 4, 7, 10, 13, 15-17, 19, 23" in repr(returned["calibrate"])
    assert "weights 512 B -> " in repr(returned["memory"])
    worst = returned["statistics"].words()
    assert {row[0] for row in worst.rows} == {"x", "a", "y"}
    assert all(len(row) == len(worst.columns) for row in worst.rows)
    assert returned["weights"].words().rows[0][:2] == ("<script>alert(1)</script>", "MatMul")
    assert len(returned["report"].words().facts) == 1


def test_words_are_escaped_and_short() -> None:
    report = {
        "model": "\x1b[31m<img src=x onerror=alert(1)>‮" + "n" * 2000, "nodes": 1, "target": "t",
        "changes": [], "about_mean": None, "engine": {"status": "not-run", "reason": ""},
        "plan": {
            "int8_share_of_eligible_macs": None, "layers": [],
            "kept_float": [{"node": "<script>", "op": "Conv", "because": '"&'}],
        },
    }  # fmt: skip
    found = results.Result(onnx.ModelProto(), typed(Report, report, lenient=True))
    assert len(repr(found)) <= 620
    assert "\x1b" not in repr(found)
    assert "‮" not in repr(found)
    page = found._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<img" not in page
    assert "<script" not in page
    assert "&quot;&amp;" in page
    assert "\x1b" not in page
    assert repr(results.Result(onnx.ModelProto(), None)) == "<Result>"  # half made: no error in a debugger


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
    with pytest.raises(UserError, match="rules is 'mine', not a list"):
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
    assert capsys.readouterr() == ("", f"onnxq: {in_words('load')}\nonnxq: {in_words('choose')}\n")


def test_a_step_that_lasts_says_so_until_the_run_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no bar turns: after each silence, with what is counted. Who speaks is not spoken for."""
    said, threads = "", set(threading.enumerate())

    def hear(*words: str) -> None:
        nonlocal said
        late = time.monotonic() + 30
        while not all(word in said for word in words):
            assert time.monotonic() < late, said
            time.sleep(0.02)
            said += capsys.readouterr().err

    still = f"onnxq: still {in_words('sanitize')}: 0 s\n"
    monkeypatch.setattr(screen, "_SILENT", 0.1)
    with contextlib.suppress(KeyError), bar() as observe:
        observe("sanitize", None, None)
        hear(2 * still)
        observe("calibrate: ranges", 3, 9)
        hear(f"onnxq: still {in_words('calibrate')}: 0 s (ranges, 3 samples)\n")
        raise KeyError
    with Screen(quiet=True, verbose=False, json=False).progress() as observe:
        observe("read", None, None)
        capsys.readouterr()
        time.sleep(0.5)  # nothing is said with -q, and nothing any more of the run that has ended
    monkeypatch.setattr(screen, "_SILENT", 1.0)
    steps = ("load", "inspect", "plan", "insert", "write")
    with bar() as observe:
        for step in steps:
            observe(step, None, None)
            time.sleep(0.3)
    assert capsys.readouterr() == ("", "".join(f"onnxq: {in_words(step)}\n" for step in steps))
    assert set(threading.enumerate()) <= threads
    assert re.fullmatch(r"(onnxq: [^\n]+\n)+", said)  # no line stands in another


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
    assert (
        written[-1] == f'{in_words("calibrate")} <progress value="1000" max="1000"></progress> 1000 of 1000'
    )
    assert len(written) < 100
    assert capsys.readouterr() == ("", "")


def test_a_bar_says_how_far_a_step_is() -> None:
    """What counts says of how many, and for how long yet; what does not, how long it has taken."""
    seconds = [0.0]
    bar = Progress(get_time=lambda: seconds[0], disable=True)
    bar.add_task("compile", total=None)
    (task,) = bar.tasks
    assert _Counts().render(task).plain == ""
    seconds[0] = 7.0
    assert _Counts().render(task).plain == "7 s"
    number = bar.add_task("weights", total=40)
    for done in range(1, 11):
        seconds[0] += 1.0
        bar.update(number, completed=done)
    assert _Counts().render(bar.tasks[1]).plain == "10/40 layers, 1 layers/s, 30 s left"


# -- completion ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("onnxq sens", ["sensitivity"]),
        ("onnxq rules e", ["explain"]),
        ("onnxq quantize net.onnx --ca", ["--calib"]),
        ("onnxq sanitize net.onnx --body b", ["bf16"]),
    ],
)
def test_the_shell_completes(typed: str, offered: list[str]) -> None:
    """Verbs, flags and values, and nothing else is written; it waits for nothing heavy."""
    code = (
        "import atexit, sys; from onnxq.cli.app import main; "
        "atexit.register(lambda: print(*{'numpy', 'onnx', 'onnxruntime', 'jinja2', 'PIL'} & {*sys.modules}, "
        "file=sys.stderr, end='')); main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "_ONNXQ_COMPLETE": "complete_bash",
            "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1),
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.stdout.split(), ran.stderr) == (offered, "")


def test_completion_is_installed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    environment["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    words = [sys.executable, "-m", "onnxq", "--install-completion", "bash"]
    subprocess.run(words, env=environment, capture_output=True, check=True)
    (script,) = (tmp_path / ".bash_completions").iterdir()
    assert "_ONNXQ_COMPLETE=complete_bash" in script.read_text("utf-8")
    assert str(script) in (tmp_path / ".bashrc").read_text("utf-8")
