"""onnxruntime that fails or crashes while it optimizes a model: the model still runs."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser
from said import is_said

import onnxq
from onnxq.base import remarks
from onnxq.cli.pages.short import short_screen
from onnxq.run import ort, trial
from onnxq.run.opening import SessionSettings

_HEAD = '<ir_version: 8, opset_import: ["" : 17]>'

# Its last optimizations merge the Transpose into the MatMul, for which a CPU has nothing in float16.
TRANSPOSED = f"""{_HEAD}
    g (float16[1, 2, 2] x) => (float16[2, 1, 2] y) <float16[2, 2] w = {{1, 0, 0, 1}}> {{
        t = Transpose <perm = [1, 0, 2]> (x)
        y = MatMul (t, w)
    }}"""
# -2^63 / -1 is a division that the processor refuses. Folding constants runs it; the model itself does not.
CRASHING = f"""{_HEAD}
    g (float16[N, 4] x, bool c) => (float16[N, 4] y) <int64 low = {{{-(2**63)}}}, int64 minus = {{-1}}> {{
        y = If (c) <
            then_branch = t () => (float16[N, 4] a) {{ a = Relu (x) }},
            else_branch = e () => (float16[N, 4] b) {{
                q = Div (low, minus)
                f = Cast <to = 10> (q)
                b = Mul (x, f)
            }}>
    }}"""
HALF = f"{_HEAD} g (float16[N, 4] x) => (float16[N, 4] y) {{ y = Relu (x) }}"
FLOAT = f"{_HEAD} g (float[N, 4] x) => (float[N, 4] y) {{ y = Relu (x) }}"
X = np.array([[-1, 2, 0, 3]], np.float16)

crashes_here = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="only x86 refuses the division"
)


def levels(monkeypatch: pytest.MonkeyPatch, bad: dict[str, Exception]) -> list[str]:
    """Makes some levels fail; the levels that sessions are opened at."""
    opened: list[str] = []
    plain = SessionSettings.open

    def open_(self: SessionSettings, source: bytes | str):
        opened.append(self.level)
        if self.level in bad:
            raise bad[self.level]
        return plain(self, source)

    monkeypatch.setattr(SessionSettings, "open", open_)
    return opened


def loaded(text: str, feeds: str, folder: Path, *, as_file: bool) -> list[str]:
    """The output of a model and the remarks, from a process of its own."""
    onnx.save(parser.parse_model(text), folder / "m.onnx")
    script = f"""
import numpy as np, onnx
from pathlib import Path
from onnxq.base import remarks
from onnxq.run import ort
path = Path({str(folder / "m.onnx")!r})
with remarks.heard() as heard:
    session = ort.load(path if {as_file} else onnx.load(path))
    print(session.run({{"x": np.array({X.tolist()}, np.float16), "c": np.array(True)}})[0].tolist())
print(*heard, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values, remark = done.stdout.splitlines()
    assert values == "[[0.0, 2.0, 0.0, 3.0]]"
    assert "(it crashes: SIGFPE)" in remark
    assert is_said(remark, "onnxruntime.not-optimized")


@crashes_here
def test_the_verb_says_so(tmp_path: Path) -> None:
    onnx.save(parser.parse_model(CRASHING), tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", x=X[0], c=np.array(True))
    options = ["--calib", "data", "--no-engine", "--method", "minmax", "--json"]
    (tmp_path / "onnxq.toml").write_text("[engine]\nexit_zero = true\n")
    command = [sys.executable, "-m", "onnxq", "quantize", "m.onnx", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accuracy"][0]["equal"] == 1
    assert " ".join(done.stderr.split()).count("note: onnxruntime") == 1
    assert "SIGFPE" in done.stderr


def test_a_crash_at_one_level_leads_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def child(source: bytes | str, settings: SessionSettings) -> None:
        tried.append(settings.level)
        if settings.level == "all":
            raise trial.Crashed("it crashes: SIGSEGV")

    monkeypatch.setattr(trial, "try_in_child", child)
    opened = levels(monkeypatch, {})
    with remarks.heard() as heard:
        (y,) = ort.load(parser.parse_model(HALF)).run({"x": X})
    assert y.tolist() == [[0, 2, 0, 3]]
    assert (tried, opened) == (["all", "extended"], ["extended"])  # never opened here at a level that crashes
    assert not heard  # nothing follows from it for the user


def test_a_crash_at_every_level_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def child(source: bytes | str, settings: SessionSettings) -> None:
        raise trial.Crashed(f"it crashes: {settings.level}")

    monkeypatch.setattr(trial, "try_in_child", child)
    opened = levels(monkeypatch, {})
    with pytest.raises(ort.RunError, match="it crashes: all"):
        ort.load(parser.parse_model(HALF))
    assert opened == []


@pytest.mark.parametrize("text", [FLOAT, HALF])
def test_an_error_leads_to_a_lower_level(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = {"all": RuntimeError("no such name\nhere"), "extended": ValueError(), "basic": ValueError()}
    opened = levels(monkeypatch, bad)
    model = parser.parse_model(text)
    x = X.astype(np.float16 if text is HALF else np.float32)
    with remarks.heard() as heard:
        assert ort.load(model).run({"x": x})[0].tolist() == [[0, 2, 0, 3]]
    assert opened == ["all", "extended", "basic", "off"]
    (remark,) = heard
    assert is_said(remark, "onnxruntime.not-optimized", error="no such name")


@pytest.mark.parametrize(
    "said",
    [
        "[ONNXRuntimeError] : 1 : FAIL : Node (a) has no kernel",
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Exception during initialization: "
        "/onnxruntime_src/onnxruntime/core/optimizer/initializer.cc:43 "
        "onnxruntime::Initializer::Initializer(const TensorProto&, const Path&) [ONNXRuntimeError] : 1 : "
        "FAIL : Node (a) has no kernel",
        "[ONNXRuntimeError] : 1 : FAIL : Load model from /a b.onnx failed:D:\\a\\core\\graph.cc:12 "
        "void onnxruntime::Graph::f(int) Node (a) has no kernel",
    ],
)
def test_its_words_have_no_codes_and_no_places_in_its_sources(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels(monkeypatch, dict.fromkeys(("all", "extended", "basic"), RuntimeError(said)))
    with remarks.heard() as heard:
        ort.load(parser.parse_model(FLOAT))
    (remark,) = heard
    assert remark.endswith("(Node (a) has no kernel)")


def test_a_model_that_is_refused_says_what_it_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    model = parser.parse_model(FLOAT)
    model.graph.node[0].op_type = "NoSuchOp"
    with remarks.heard() as heard, pytest.raises(ort.RunError, match="NoSuchOp"):
        ort.load(model)
    levels(monkeypatch, {name: ValueError(name) for name in ("all", "extended", "basic", "off")})
    with remarks.heard() as more, pytest.raises(ort.RunError, match="all"):
        ort.load(parser.parse_model(FLOAT))
    assert not heard
    assert not more


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no model")
    for name in ("m.onnx", "none.onnx"):
        with pytest.raises(ort.RunError, match=name):
            ort.load(tmp_path / name)


def test_only_risky_models_are_tried_and_only_with_optimizations(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(trial, "try_in_child", lambda *arguments: tried.append(arguments))
    ort.load(parser.parse_model(FLOAT))
    ort.load(parser.parse_model(HALF), optimize=False)
    assert tried == []
    ort.load(parser.parse_model(HALF))
    assert len(tried) == 1


@pytest.mark.parametrize(
    ("text", "risky"),
    [
        ("g (float[N] x) => (float[N] y) { y = Relu (x) }", False),
        ("g (float[N] x) => (bfloat16[N] y) { y = Cast <to = 16> (x) }", False),
        ("g (float16[N] x) => (float16[N] y) { y = Relu (x) }", True),
        ("g (float[N] x) => (float[N] y) { h = Cast <to = 10> (x) y = Cast <to = 1> (h) }", True),
        ("g (float[N] x) => (float[N] y) <float16 c = {1}> { h = Cast <to = 1> (c) y = Mul (x, h) }", True),
        (
            """g (float[N] x, bool c) => (float[N] y) { y = If (c) <
                then_branch = t () => (float[N] a) { a = Relu (x) },
                else_branch = e () => (float[N] b) { h = Cast <to = 10> (x) b = Cast <to = 1> (h) }> }""",
            True,
        ),
    ],
)
def test_what_is_risky(text: str, risky: bool) -> None:
    assert trial.is_risky(parser.parse_model(_HEAD + text)) == risky


def test_what_is_risky_in_a_function() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[N] x) => (float[N] y) { y = own.half (x) }
        <domain: "own", opset_import: ["" : 17]>
        half (a) => (b) { h = Cast <to = 10> (a) b = Cast <to = 1> (h) }"""
    )
    assert trial.is_risky(model)


@crashes_here
def test_one_process_opens_what_follows_and_another_one_what_follows_a_crash() -> None:
    trial._end()
    good, bad = (parser.parse_model(text).SerializeToString() for text in (HALF, CRASHING))

    def waits_after(source: bytes) -> int | None:
        trial.try_in_child(source, SessionSettings())
        return None if trial._waiting is None else trial._waiting[1].pid

    first = waits_after(good)
    assert first is not None
    assert waits_after(good) == first
    with pytest.raises(trial.Crashed, match="it crashes: SIGFPE"):
        waits_after(bad)
    assert trial._waiting is None
    assert waits_after(good) not in (None, first)


def test_a_trial_that_cannot_be_made_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    for child in ((sys.executable, "-c", "1 / 0"), ("/no/such/python",)):
        trial._end()  # one that waits
        monkeypatch.setattr(trial, "_CHILD", child)
        with remarks.heard() as heard:
            ort.load(parser.parse_model(HALF))
        assert not heard


def test_the_report_and_the_screen_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = parser.parse_model(
        f"{_HEAD} g (float16[16, 16] x) => (float16[16, 16] y) <float16[16, 16] w> {{ y = MatMul (x, w) }}"
    )
    w = np.eye(16, dtype=np.float16)
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))

    def child(source: bytes | str, settings: SessionSettings) -> None:
        if settings.level != "off":
            raise trial.Crashed(f"it crashes: SIGSEGV {'in a fusion, ' * 9}")  # more than a line's width

    monkeypatch.setattr(trial, "try_in_child", child)
    rng = np.random.default_rng(0)
    data = [{"x": rng.standard_normal((16, 16)).astype(np.float16)} for _ in range(4)]
    result = onnxq.quantize(model, data, compile=False)
    report = result.report
    (note,) = report["notes"]
    assert is_said(note, "onnxruntime.not-optimized")
    assert "it crashes: SIGSEGV" in note
    result.save(tmp_path / "q.onnx")
    said = str(short_screen(result.report).lines)
    assert "without optimizations, which" in said
    assert report["accuracy"][0]["sqnr_db"] > 30


def test_a_remark_that_nobody_listens_to_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="so it is"):
        remarks.remark("so it is")
    assert remarks.so_far() == []
    with remarks.heard() as outer:
        with remarks.heard() as inner:
            remarks.remark("a")
            remarks.remark("a")
            assert remarks.so_far() == ["a"]
        remarks.remark("b")
    assert (list(inner), list(outer)) == (["a"], ["a", "b"])
