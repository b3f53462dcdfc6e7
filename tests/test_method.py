"""A calibration method is one file, onnxq's or the user's: flag, keyword, key and refusals are made of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from command import environment, net

from onnxq.base.errors import UserError
from onnxq.options.config import LayerRule
from onnxq.options.method import parameters
from onnxq.options.settings import Calibration
from onnxq.options.verbs import VERBS

SIGMAS = '''"""So many standard deviations around the mean."""

from onnxq.options.method import Parameter, method

SIGMAS = Parameter("sigmas", 4, 100, "Of method sigmas.", "S", hint="3 holds most of a normal distribution")


@method(parameter=SIGMAS)
def sigmas(stats, sigmas):
    return abs(stats.mean) + sigmas * stats.variance ** 0.5
'''
FAST = ("-q", "--repair", "none", "--no-engine", "--body", "fp32", "--json")
PYTHON = """
import json, onnxq, typer
from onnxq.cli.app import app
from onnxq.base.errors import UserError

def refused(**options):
    try:
        return onnxq.Calibration(**options).method
    except UserError as error:
        return str(error)

def ranges(**options):
    result = onnxq.quantize("net.onnx", "data.npz", repair="none", compile=False, body="fp32", **options)
    found = result.report["calibration"]
    return found["method"], found["thresholds"]["x"]["amax"]

def has(verb):
    command = typer.main.get_command(app).commands[verb]
    return {name for p in command.params for name in p.opts} & {"--sigmas", "--method"}

print(json.dumps({
    "alone": ranges(sigmas=3),
    "default": ranges(method="sigmas"),
    "instance": ranges(calibration=onnxq.Calibration(sigmas=2)),
    "layer": ranges(method="minmax", layers=[onnxq.LayerRule(op=("MatMul",), sigmas=1)]),
    "refused": [refused(method="mse", sigmas=3), refused(sigmas=3, percentile=99), refused(sigmas=3)],
    "verbs": {v: sorted(has(v)) for v in ("quantize", "plan", "sensitivity", "sanitize", "calibrate")},
}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, data with an outlier, and the file of a method."""
    onnx.save(net(), tmp_path / "net.onnx")
    x = np.random.default_rng(1).standard_normal((8, 32, 8)).astype(np.float32)
    x[:, 0, 0] = 30  # in each sample: which of them calibrate, is onnxq's to say
    np.savez(tmp_path / "data.npz", x=x)
    (tmp_path / "sigmas.py").write_text(SIGMAS)
    return tmp_path


def ran(folder: Path, *arguments: str, file: str = "sigmas.py") -> subprocess.CompletedProcess[str]:
    env = environment(folder) | {"ONNXQ_METHODS": str(folder / file)}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True)


def test_a_method_of_the_users_by_the_command_line(folder: Path) -> None:
    command = ("-m", "onnxq", "quantize", "net.onnx", "--calib", "data.npz", *FAST)
    settings = "[engine]\nexit_zero = true\n[calibration]\nsigmas = {}\n"
    (folder / "onnxq.toml").write_text(settings.format(3))
    done = ran(folder, *command)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["calibration"]
    assert found["method"] == "sigmas 3"
    assert 5 < found["thresholds"]["x"]["amax"] < 8  # 3 deviations of values of variance 1 + 30^2 / 256
    (folder / "onnxq.toml").write_text(settings.format('3\nmethod = "mse"'))
    done = ran(folder, *command)
    assert done.returncode == 2
    assert "method mse and sigmas exclude each other: in 'onnxq.toml' sigmas is of method" in done.stderr
    (folder / "onnxq.toml").write_text(settings.format(2))
    found = json.loads(ran(folder, *command, "--force").stdout)["calibration"]
    assert found["method"] == "sigmas 2"


def test_a_method_of_the_users_in_python(folder: Path) -> None:
    done = ran(folder, "-c", PYTHON)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [found[key][0] for key in ("layer", "instance", "alone", "default")] == [
        "sigmas 1, [[layer]] 1", "sigmas 2", "sigmas 3", "sigmas 4",
    ]  # fmt: skip
    thresholds = [found[key][1] for key in ("layer", "instance", "alone", "default")]
    steps = np.diff(thresholds)  # a deviation each
    assert 1.5 < steps[0] < 2.6
    assert steps == pytest.approx(steps[0], rel=1e-9)
    assert found["refused"] == [
        "method mse and sigmas exclude each other: sigmas is of method sigmas",
        "percentile and sigmas exclude each other: they are of the methods percentile and sigmas",
        "sigmas",
    ]
    both = ["--method"]  # its parameter is a key of onnxq.toml
    assert found["verbs"] == {
        "quantize": both, "plan": both, "sensitivity": both, "sanitize": [], "calibrate": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "line 1: SyntaxError"),
        (SIGMAS.replace("def sigmas", "def mse"), "has a method 'mse', and there is one"),
        (SIGMAS.replace('"sigmas", 4', '"percentile", 4'), "has a parameter 'percentile'"),
        (SIGMAS.replace('"sigmas", 4', '"samples", 4'), "has a parameter 'samples', and that is an option"),
        ("", "has no calibration method"),
    ],
)
def test_a_file_that_cannot_be_used_is_the_users_error(folder: Path, text: str, said: str) -> None:
    (folder / "other.py").write_text(text)
    done = ran(folder, "-m", "onnxq", "--version", file="other.py")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert os.linesep + "hint: " in done.stderr


def test_a_file_that_is_not_there(folder: Path) -> None:
    done = ran(folder, "-m", "onnxq", "--version", file="sigma.py")
    assert done.returncode == 2
    assert "did you mean" in done.stderr


def test_parameters_are_where_the_method_is_chosen_and_nowhere_else() -> None:
    for verb in VERBS.values():
        names = verb.options(Calibration)
        assert {*parameters(), "search"} & {*names} == (
            {*parameters(), "search"} if "method" in names else set()
        )


def test_an_instance_is_refused_as_flags_are() -> None:
    for given in ({"percentile": 99.0}, {"percentile": 99.99}):
        assert Calibration(**given).method == "percentile"
    assert Calibration(constant=0.1).method == "average"
    assert Calibration(search=True).method == "percentile"
    for given in (
        {"method": "mse", "percentile": 99.9}, {"method": "auto", "percentile": 99.9},
        {"percentile": 99.9, "constant": 0.1}, {"method": "minmax", "search": True},
        {"percentile": 99.9, "search": True},
    ):  # fmt: skip
        with pytest.raises(UserError, match="exclude each other"):
            Calibration(**given)
    assert LayerRule(percentile=99.0).method == "percentile"
    with pytest.raises(
        UserError, match=r"method mse and percentile exclude each other: in .* 1 percentile is of"
    ):
        LayerRule(method="mse", percentile=99.0)
