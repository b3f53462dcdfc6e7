"""The wheel: what it holds, that it runs where the tree is not, and that it is typed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import onnx
import onnx.parser
import pytest

import onnxq

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests/users_script.py"

backend = pytest.importorskip("hatchling.build", reason="hatchling, which builds the wheel, is not installed")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return place / backend.build_wheel(str(place))


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    """An environment of its own: onnxq as pip installs it, and what it needs from this one."""
    place = wheel.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    subprocess.run(
        [
            sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install", "--quiet",
            "--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", str(wheel),
        ],
        check=True,
    )  # fmt: skip
    needed = {str(Path(module.__file__).parents[1]) for module in (onnx, pytest) if module.__file__}
    (site,) = place.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text("\n".join(needed), "utf-8")
    where = [place / "bin/python", "-c", "import onnxq; print(onnxq.__file__)"]
    ran = subprocess.run(where, cwd=place, env=outside(), capture_output=True, text=True, check=True)
    assert Path(ran.stdout).is_relative_to(place)
    return place


def outside() -> dict[str, str]:
    """The environment variables, without those that lead to the tree."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}


def test_the_wheel_holds_all(wheel: Path) -> None:
    """Every file of the package and every rule: templates, targets, GPUs, `py.typed`."""
    held = set(zipfile.ZipFile(wheel).namelist())
    files = {
        (folder / file.relative_to(ROOT / name)).as_posix()
        for name, folder in (("onnxq", Path("onnxq")), ("rules", Path("onnxq/rules")))
        for file in (ROOT / name).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert files <= held
    assert {"onnxq/py.typed", "onnxq/page/templates/page.js", "onnxq/targets/tensorrt-11.toml"} <= files
    assert not [name for name in held if name.startswith(("tests/", "benchmarks/"))]


def test_it_runs_where_the_tree_is_not(environment: Path, tmp_path: Path) -> None:
    """Rules and targets are read, and a page is made of its templates."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        net (float[1, 8] x) => (float[1, 8] y) { a = Identity (x) y = Relu (a) }"""
    )
    onnx.save(model, tmp_path / "net.onnx")
    for words in (
        ["sanitize", "net.onnx", "-o", "out.onnx", "-q"], ["report", "out.report.json", "-q"],
    ):  # fmt: skip
        ran = subprocess.run(
            [environment / "bin/onnxq", *words],
            cwd=tmp_path,
            env=outside(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
    assert "<!doctype html>" in (tmp_path / "out.report.html").read_text("utf-8").lower()
    report = (tmp_path / "out.report.json").read_text("utf-8")
    assert '"changes": []' not in report  # a rule took the Identity away


def test_the_script_of_a_user_uses_every_name() -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(SCRIPT.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "onnxq"
    }
    assert used == set(onnxq.__all__)


def test_the_wheel_is_typed(environment: Path, tmp_path: Path) -> None:
    """By mypy --strict; no figure that is used is `Any`, and a name that is not there is missed."""
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    text = SCRIPT.read_text("utf-8")
    script.write_text(f"{text}\n\nonnxq.quantise\nonnxq.Goal().no_such\n", "utf-8")
    ran = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--disallow-any-expr", "--config-file=",
            "--python-executable", str(environment / "bin/python"), "--no-incremental", str(script),
        ],
        cwd=tmp_path, env=outside(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line for line in ran.stdout.splitlines() if " error: " in line]
    assert len({line.split(":")[1] for line in errors}) == 2, ran.stdout + ran.stderr
    assert 'Module has no attribute "quantise"' in ran.stdout
    assert '"Goal" has no attribute "no_such"' in ran.stdout


def test_it_is_the_same_when_it_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte, at another time and of the sdist."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "315532800")
    monkeypatch.chdir(ROOT)
    first = tmp_path / "first"
    of_tree = first / backend.build_wheel(str(first))
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as packed:
        packed.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("onnxq-*/")
    monkeypatch.chdir(unpacked)
    again = tmp_path / "again"
    of_sdist = again / backend.build_wheel(str(again))
    assert of_sdist.name == of_tree.name == f"onnxq-{onnxq.__version__}-py3-none-any.whl"
    assert of_sdist.read_bytes() == of_tree.read_bytes()
