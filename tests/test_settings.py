"""Options are said once: flags, `onnxq.toml` and the keywords of Python are those of the groups."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
import typer

import onnxq
from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.cli.app import app
from onnxq.options.config import load_config
from onnxq.options.grouped import Options
from onnxq.options.option import bytes_in, read_options
from onnxq.options.settings import GROUPS, Calibration, DataPlace, Format, Inputs, Repairs
from onnxq.options.verbs import VERBS

READ = ("quantize", "sensitivity", "calibrate", "sanitize", "check", "data")  # the verbs that read onnxq.toml
NOT_IN_A_FILE = {
    "output", "force", "as_json", "config", "help", "help_all", "budget",
    "merge",  # another task of `calibrate`
    "form",  # of what `check` prints
    "report", "sheet",  # what `check` and `data` write
    "checks",  # what `check` runs of the user's
    "match", "op",  # which rows are shown
}  # fmt: skip

VALUES = {  # a value in TOML for each key, and what is read of it
    "quiet": ("true", True), "verbose": ("true", True), "target": ('"tensorrt-10"', "tensorrt-10"),
    "rules": ('"mine"', (Path("/f/mine"),)), "enable": ('["a", "b"]', ("a", "b")), "skip": ('"a"', ("a",)),
    "accept": ('"a"', ("a",)), "plugin": ('"Op"', ("Op",)), "ops": ('"o.py"', (Path("/f/o.py"),)),
    "prove": ('"never"', "never"), "allow_interface_changes": ("true", True),
    "pairs": ('"adopt"', "adopt"), "ort_ops": ('["lib.so"]', (Path("/f/lib.so"),)),
    "largest": ('"8GB"', 8 * 10**9),
    "shape": ('{x = "Nx3x8x8", y = [1, 2]}', {"x": ("N", 3, 8, 8), "y": (1, 2)}),
    "assume": ("{N = 2}", {"N": 2}), "freeze": ("{k = [1, 2.5], b = true}", {"k": [1, 2.5], "b": True}),
    "batch": ('"1:8:32"', (1, 8, 32)),
    "data": ('"images"', Path("/f/images")), "data_loader_script": ('"l.py:f"', Path("/f/l.py:f")),
    "skip_bad": ("true", True), "input_name": ('{x = "image"}', {"x": "image"}),
    "scale": ('"1/255"', 1 / 255), "mean": ("[0.5, 1, 2]", (0.5, 1.0, 2.0)), "std": ("2", (2.0,)),
    "color": ('"bgr"', "bgr"), "resize": ("[640, 480]", (640, 480)), "crop": ('"24x16"', (24, 16)),
    "letterbox": ("true", True), "preset": ('"yolo"', "yolo"), "method": ('"mse"', "mse"),
    "percentile": ("99", 99.0), "constant": ("0.5", 0.5), "search": ("true", True), "exact": ("true", True),
    "samples": ("3", 3), "seed": ("3", 3), "stats": ('"a.npz"', Path("/f/a.npz")), "partial": ("true", True),
    "shard": ('"2/3"', (2, 3)), "workers": ("2", 2), "keep_float": ('"/head/*"', ("/head/*",)),
    "keep_float_op": ('"Softmax"', ("Softmax",)), "keep_fp32": ('"/head/*"', ("/head/*",)),
    "plan": ('"p.toml"', Path("/f/p.toml")),
    "body": ('"fp32"', "fp32"), "io": ('"fp32"', "fp32"), "scale_form": ('"post-scale"', "post-scale"),
    "format": ('"fp8"', "fp8"), "loud": ('"auto"', "auto"),
    "cache": ("true", True), "device": ('"l4"', "l4"), "dla": ("true", True),
    "no_engine": ("true", False), "no_page": ("true", False),
    "min_sqnr": ("30", 30.0), "ship_from": ("80", 80.0), "min_agreement": ('"logits=99"', ("logits", 99.0)),
    "task": ('"detect:yolov8"', "detect:yolov8"), "labels": ('"l.json"', Path("/f/l.json")),
    "max_drop": ("0.5", 0.5), "eval": ('"s.py:f"', Path("/f/s.py:f")), "max_float": ('"5%"', 0.05),
    "steps": ('["bias", "shift"]', ("bias", "shift")),
    "costs": ('"c.json"', Path("/f/c.json")), "weigh": ("{a = 2, b = 0.5}", {"a": 2.0, "b": 0.5}),
    "measure": ("3", 3), "time_limit": ("60", 60.0), "top": ("3", 3),
    "margin_db": ("0.2", 0.2), "margin_points": ("1", 1.0), "margin_percent": ("5", 5.0),
    "profile": ('{x = "1:2:3"}', {"x": ((1,), (2,), (3,))}), "strict": ("true", True),
    "exit_zero": ("true", True),
    "profile_weight": ("{decode = 0.9}", {"decode": 0.9}),
    "layer_samples": ("16", 16), "no_pictures": ("true", False),
    "deploy": ('"triton"', "triton"),
}  # fmt: skip

OPTIONS = [(group, name, said) for group in GROUPS for name, said in read_options(group).items()]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "onnxq.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("verb", READ)
def test_every_flag_may_stand_in_the_file(verb: str) -> None:
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    flags = {parameter.name for parameter in command.params if parameter.opts[0].startswith("-")}
    assert flags - NOT_IN_A_FILE <= {name for _, name, _ in OPTIONS}
    assert {"config", "as_json"} <= flags


@pytest.mark.parametrize(("group", "name", "said"), OPTIONS, ids=[f"{g.__name__}.{n}" for g, n, _ in OPTIONS])
def test_the_file_is_read_as_the_flag_is(tmp_path: Path, group: type, name: str, said) -> None:
    text, value = VALUES[said.key]
    for table in said.tables:
        path = written(tmp_path, (f"[{table}]\n" if table else "") + f"{said.key} = {text}\n")
        read = load_config(path).of(group)[name]
        expected = str(value).replace("/f/", f"{tmp_path}/")
        assert str(read).replace("PosixPath", "Path") == expected.replace("PosixPath", "Path")
    for wrong in ("[[1]]", "1979-05-27"):
        with pytest.raises(UserError, match=f"line 2: .*{said.key}"):
            load_config(
                written(tmp_path, f"[{said.tables[-1] or 'x'}]\n{said.key} = {wrong}\n".replace("[x]", ""))
            )


@pytest.mark.parametrize("key", ["rules", "ort_ops", "ops", "data_loader_script", "eval"])
def test_what_runs_code_is_obeyed_in_a_named_file_only(tmp_path: Path, key: str) -> None:
    (table,) = {said.tables[0] for _, _, said in OPTIONS if said.key == key}
    path = written(tmp_path, f'[{table}]\n{key} = "mine.py"\n')
    assert load_config(path, named=True).options
    with pytest.raises(
        UserError, match=rf"line 2: {key} names code that is run.*found in the folder"
    ) as caught:
        load_config(path, named=False)
    assert "--config" in caught.value.hint
    flag = "--" + key.replace("_", "-")
    assert flag in caught.value.hint
    assert {said.key for _, _, said in OPTIONS if said.runs_code} == {
        "rules",
        "ort_ops",
        "ops",
        "data_loader_script",
        "eval",
    }


def test_a_key_of_another_table(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 2: there is no key 'mean'") as caught:
        load_config(written(tmp_path, "[calibration]\nmean = 0.5\n"))
    assert caught.value.hint == "it belongs into [images]"
    with pytest.raises(UserError, match="preset is given twice") as caught:
        load_config(written(tmp_path, '[images]\npreset = "yolo"\n[calibration]\npreset = "raw"\n'))
    assert "keep one" in caught.value.hint


@pytest.mark.parametrize("verb", ["quantize", "calibrate", "sanitize"])
def test_groups_and_keywords_are_the_same(verb: str) -> None:
    """Each option of the groups that a function has is a keyword, and no function names one itself."""
    code = inspect.unwrap(getattr(onnxq, verb)).__code__  # its signature tells of the options, too
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 1]
    names = {name for _, name, _ in OPTIONS}
    assert not names & set(parameters)
    assert "options" in parameters


def test_keywords_win_over_their_group() -> None:
    groups = {"calibration": {"method": "percentile", "samples": 3}, "inputs": Inputs(assume={"N": 1})}
    asked = Options.of("quantize", {"percentile": 99.0, "shapes": {"x": (1,)}, **groups})
    assert asked.calibration == Calibration("percentile", 99.0, samples=3)
    assert asked.inputs == Inputs({"x": (1,)}, {"N": 1})
    assert asked.given[Calibration] == {"method", "samples", "percentile"}
    with pytest.raises(TypeError, match=r"calibrate\(\) got an unexpected keyword argument 'method'"):
        Options.of("calibrate", {"method": "mse"})


def test_wrong_keywords_and_groups() -> None:
    with pytest.raises(TypeError, match=r"quantize\(\) got an unexpected keyword .*'methd'.*'method'"):
        onnxq.quantize("x.onnx", methd="mse")
    with pytest.raises(TypeError, match="unexpected keyword argument 'method'"):
        onnxq.calibrate("x.onnx", "data", "o.npz", method="mse")
    with pytest.raises(UserError, match="there is no calibration option 'methd'") as caught:
        onnxq.quantize("x.onnx", calibration={"methd": "mse"})
    assert "'method'" in caught.value.hint
    with pytest.raises(UserError, match="quantize has no option 'allow_interface_changes'"):
        onnxq.quantize("x.onnx", repairs=Repairs(allow_interface_changes=True))
    with pytest.raises(UserError, match="calibration is 'mse', not a Calibration or a mapping or None"):
        onnxq.quantize("x.onnx", calibration="mse")
    with pytest.raises(UserError, match="no proof level 'alway'"):
        onnxq.sanitize("x.onnx", prove="alway")


EXPORTED = [name for name in onnxq.__all__ if inspect.isfunction(getattr(onnxq, name))]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_keyword_of_a_wrong_type_is_named(name: str) -> None:
    """Every keyword of every function, whether it is an option or its own."""
    function = getattr(onnxq, name)
    parameters = inspect.signature(function).parameters
    needed = {
        n: ["nothing"] if p.annotation.startswith("Sequence") else "nothing"
        for n, p in parameters.items()
        if p.default is p.empty
    }
    if "found" in needed:
        needed["found"] = onnxq.inspect(
            onnx.parser.parse_model(
                '<ir_version: 8, opset_import: ["" : 17]> g (float x) => (y) { y = Abs (x) }'
            )
        )
    for keyword in parameters.keys() - needed.keys():
        wrong = type("Wrong", (), {"__repr__": lambda self: "<wrong>"})()
        with pytest.raises(UserError, match=f"^{keyword} is <wrong>, not ") as caught:
            function(**needed, **{keyword: wrong})
        assert caught.value.hint, keyword


@pytest.mark.parametrize(("group", "name", "said"), OPTIONS, ids=[f"{g.__name__}.{n}" for g, n, _ in OPTIONS])
def test_an_option_of_a_wrong_type_is_named(group: type, name: str, said) -> None:
    for wrong in (object(), b"x", *(() if said.kind.typed is bool else (True,))):
        with pytest.raises(UserError, match=f"^{name} is {re.escape(f'{wrong!r:.60}')}, not "):
            group(**{name: wrong})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"percentile": "high"}, "percentile is 'high', not a number$"),
        ({"samples": "many"}, "samples is 'many', not a whole number$"),
        ({"samples": None}, "samples is None, not a whole number$"),
        ({"keep_float": "/head/*"}, "keep_float is '/head/\\*', not a list whose entries are each a text$"),
        ({"assume": {"N": 1.5}}, "assume is {'N': 1.5}, not a mapping whose values are each a whole number"),
        ({"min_agreement": ("y",)}, r"min_agreement is \('y',\), not a number or \(a text, a number\)"),
        ({"rules": [3]}, "rules is \\[3\\], not a list whose entries are each a path$"),
        ({"method": "mse", "percentile": 99.9}, "method mse and percentile exclude each other"),
        ({"calibration": {"method": "mse"}, "constant": 0.1}, "method mse and constant exclude each other"),
        ({"percentile": 99.9, "constant": 0.1}, "percentile and constant exclude each other"),
        ({"percentile": 99.9, "search": True}, "search and percentile exclude each other"),
        ({"method": "minmax", "search": True}, "method minmax and search exclude each other"),
    ],
)
def test_bad_values_and_combinations(given: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        onnxq.quantize("x.onnx", **given)


def test_numbers_of_numpy_are_numbers() -> None:
    assert Calibration(samples=np.int64(3), percentile=np.float32(99)).samples == 3
    assert Inputs(shapes={"x": np.array([1, 3])}).shapes is not None


def test_a_parameter_says_which_method() -> None:
    for given, method in (({"percentile": 99.0}, "percentile"), ({"search": True}, "percentile"),
                          ({"constant": 0.1}, "average"), ({"search": False}, "auto"), ({}, "auto"),
                          ({"method": "auto", "search": True}, "auto"),
                          ({"method": "mse", "percentile": 99.99, "constant": 0.01}, "mse")):  # fmt: skip
        assert Options.of("quantize", given).calibration.method == method
    asked = Options.of("quantize", {"percentile": 99.0, "calibration": Calibration("mse")})
    assert asked.calibration == Calibration("percentile", 99.0)


def test_every_field_of_a_group_is_an_option_with_a_place_of_its_own() -> None:
    places = [(table, said.key) for _, _, said in OPTIONS for table in said.tables]
    assert len(places) == len(set(places))
    for group in GROUPS:
        assert {field.name for field in dataclasses.fields(group)} == set(read_options(group)), group


def test_the_help_shows_panels_with_an_example_that_parses(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        command: Any = typer.main.get_command(app)
        for word in verb.split():
            command = command.commands[word]
        panels = {getattr(parameter, "rich_help_panel", None) for parameter in command.params} - {None}
        for panel in panels:
            title, found, example = panel.partition(", as in ")
            assert title, (verb, panel)
            assert found, (verb, panel)
            arguments = [*shlex.split(example), *(["A"] * sum(p.required for p in command.params))]
            command.make_context(verb, arguments)  # raises where a flag is not one of the verb's
        app([*verb.split(), "--help-all" if VERBS[verb].first else "--help"], standalone_mode=False)
        shown = capsys.readouterr().out
        for panel in panels:
            assert panel in shown, (verb, panel)
    assert not re.search(r"\bDataPlace\b", shown)
    assert DataPlace.TITLE == "Data"


def test_an_option_by_its_former_name_works_and_is_told(tmp_path: Path) -> None:
    told = "the option 'heads' is called 'loud' now: 'heads' still works"
    with remarks.heard() as heard:
        assert Options.of("quantize", {"heads": "float"}).format.loud == "float"
    assert list(heard) == [told]
    with pytest.raises(UserError, match="heads, loud is given twice"), remarks.heard():
        Options.of("quantize", {"heads": "float", "loud": "auto"})
    with remarks.heard() as heard:
        assert load_config(written(tmp_path, '[format]\nheads = "auto"\n')).of(Format) == {"loud": "auto"}
    assert list(heard) == [told]
    with pytest.raises(UserError, match="line 3: loud is given twice"), remarks.heard():
        load_config(written(tmp_path, '[format]\nheads = "auto"\nloud = "auto"\n'))
    with pytest.raises(UserError, match=r"line 2: .*heads"), remarks.heard():
        load_config(written(tmp_path, "[format]\nheads = 3\n"))


@pytest.mark.parametrize("given", ["9" * 400, "9" * 400 + "k", "0", str(1 << 60)])
def test_a_size_that_no_machine_has_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="not a size that a machine has"):
        bytes_in(given)
    assert bytes_in(str(1 << 59)) == 1 << 59
    assert bytes_in("2gib") == 2 << 30
