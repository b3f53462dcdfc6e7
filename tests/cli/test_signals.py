"""SIGINT, SIGTERM and SIGHUP end any verb, wherever it is, and nothing is left of it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import environment

from onnxq.cli.screen import in_words

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")

# Two seconds are promised; a machine on which everything else runs too may take longer.
SECONDS = 8.0

LOOP = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 32, 32] x) => (float[N, 32, 32] y) <int64 m = {9223372036854775807}, bool c = {1}> {
        i = Identity (x)  a = MatMul (i, w)
        y = Loop (m, c, a) <body = b (int64 i, bool on, float[N, 32, 32] v) => %s> }"""
# Only between nodes does onnxruntime look whether it is to stop.
LISTENING = LOOP % "(bool co, float[N, 32, 32] u) { co = Identity (on)  u = Neg (v) }"
DEAF = LOOP % "(bool on, float[N, 32, 32] v) { }"

COMPILER = """
import sys
from onnxq.cli.app import main
from onnxq.run import trt
trt._CHILD = (sys.executable, "-c", "import time; print(flush=True); time.sleep(60)")
trt.installed = lambda: "a compiler that takes long"
sys.argv = ["onnxq", "engine", "easy.onnx"]
main()
"""

CALIBRATE = ("-m", "onnxq", "calibrate", "listening.onnx", "--calib", "x.npy")
PLACES: dict[str, tuple[Sequence[str], str, float]] = {
    "proof": (("-m", "onnxq", "sanitize", "listening.onnx"), "sanitize", 1.0),
    "run": (("-m", "onnxq", "quantize", "listening.onnx", "--calib", "x.npy"), "calibrate", 1.0),
    "statistics": (CALIBRATE, "calibrate", 1.0),
    "deaf": (("-m", "onnxq", "compare", "deaf.onnx", "deaf.onnx", "--data", "x.npy"), "compare", 1.0),
    "workers": ((*CALIBRATE, "--workers", "2"), "calibrate", 4.0),
    "compiler": (("-c", COMPILER), "compile", 1.0),
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    weights = onnx.numpy_helper.from_array(random.standard_normal((32, 32)).astype(np.float32), "w")
    easy = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg (x) }'
    for name, text in (("listening", LISTENING), ("deaf", DEAF), ("easy", easy)):
        model = onnx.parser.parse_model(text)
        if name != "easy":
            model.graph.initializer.append(weights)
        onnx.save(model, tmp_path / f"{name}.onnx")
    np.save(tmp_path / "x.npy", random.standard_normal((8, 32, 32)).astype(np.float32))
    return tmp_path


def ignoring() -> None:
    """What a shell does for a command in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def children(session: int) -> list[str]:
    """The commands of a session, by the folders of /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return [command for command in found if command]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
@pytest.mark.parametrize(("arguments", "step", "seconds"), PLACES.values(), ids=PLACES)
def test_wherever_it_is(
    arguments: Sequence[str], step: str, seconds: float, number: signal.Signals, here: Path
) -> None:
    before = sorted(os.listdir(here))
    background: Callable[[], None] | None = ignoring if number == signal.SIGINT else None
    run = subprocess.Popen(
        [sys.executable, *arguments], cwd=here, env=environment(here), text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=background,
    )  # fmt: skip
    try:
        assert run.stderr is not None
        for line in run.stderr:
            if line == f"onnxq: {in_words(step)}\n":
                break
        time.sleep(seconds)
        assert run.poll() is None
        start = time.monotonic()
        run.send_signal(number)
        out, err = run.communicate(timeout=60)
        took = time.monotonic() - start
    finally:
        run.kill()
        run.wait()
    assert (run.returncode, out, err.splitlines()[-1]) == (130, "", "error: interrupted")
    assert took < SECONDS
    assert sorted(os.listdir(here)) == before
    assert not list(here.with_name(f"{here.name}.tmp").glob("*onnxq*"))
    end = time.monotonic() + 10
    while (left := children(run.pid)) and time.monotonic() < end:  # multiprocessing's own go by themselves
        time.sleep(0.05)
    assert not left


HANGUPS = {"workers": (*CALIBRATE, "--workers", "2"), "run": PLACES["run"][0]}


@pytest.mark.parametrize("arguments", HANGUPS.values(), ids=HANGUPS)
def test_where_the_terminal_goes_away(arguments: Sequence[str], here: Path) -> None:
    """The system sends SIGHUP to all processes of the terminal, and what is written there is an error."""
    before = sorted(os.listdir(here))
    ours, theirs = os.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", IN_TERMINAL, *arguments[2:]], cwd=here,
        env=environment(here) | {"TERM": "xterm"}, start_new_session=True, stdin=theirs, stdout=theirs,
        stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    try:
        shown, begins = (
            b"",
            in_words("calibrate").split()[0].encode(),
        )  # a narrow terminal has the rest elsewhere
        until = time.monotonic() + 60
        while begins not in shown and time.monotonic() < until and select.select([ours], [], [], 60)[0]:
            shown += os.read(ours, 1000)
        assert begins in shown
        time.sleep(1)
        os.close(ours)
        start = time.monotonic()
        assert run.wait(60) == 130
        assert time.monotonic() - start < SECONDS
    finally:
        run.kill()
        run.wait()
    assert sorted(os.listdir(here)) == before
    assert not list(here.with_name(f"{here.name}.tmp").glob("*onnxq*"))


IN_TERMINAL = """
import fcntl, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from onnxq.cli.app import main
main()
"""


def test_a_hangup_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """As with nohup."""
    ran = ended(
        """
signal.signal(signal.SIGHUP, signal.SIG_IGN)
interrupts.end_on_signals(KeyboardInterrupt, grace=0.1)
with interrupts.held_back():
    os.kill(os.getpid(), signal.SIGHUP)
os.kill(os.getpid(), signal.SIGHUP)
time.sleep(0.5)
print("goes on")
""",
        tmp_path,
    )
    assert (ran.returncode, ran.stdout) == (0, "goes on\n")


def ended(code: str, here: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program in which `GRACE` is short."""
    start = "import os, signal, sys, time\nfrom onnxq.base import interrupts\n"
    return subprocess.run(
        [sys.executable, "-c", start + code], env=environment(here), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def test_an_interrupt_that_is_lost(tmp_path: Path) -> None:
    """Whoever catches it, the process ends; what it has made goes with it."""
    ran = ended(
        """
interrupts.end_on_signals(KeyboardInterrupt, grace=0.3, last_words="that is all")
folder, here = interrupts.Folder(), interrupts.Folder(__import__("pathlib").Path(os.environ["TMPDIR"]))
process = __import__("subprocess").Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(process.pid, flush=True)
with interrupts.child(process):
    while True:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        except KeyboardInterrupt:
            print("caught", flush=True)
""",
        tmp_path,
    )
    number, *caught = ran.stdout.split()
    assert (ran.returncode, caught, ran.stderr) == (130, ["caught"], "that is all\n")
    assert os.listdir(environment(tmp_path)["TMPDIR"]) == []
    command = Path(f"/proc/{number}/cmdline")  # of a zombie it is empty
    assert not command.exists() or not command.read_text()


def test_what_must_be_whole_is_waited_for(tmp_path: Path) -> None:
    ran = ended(
        """
interrupts.end_on_signals(SystemExit, grace=0.1)
with interrupts.held_back():
    with interrupts.held_back():
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1)
    print("whole", flush=True)
print("too late", flush=True)
""",
        tmp_path,
    )
    assert ran.stdout == "whole\n"
    assert ran.returncode in (0, 130)  # of SystemExit, if it comes first


def test_a_second_signal_does_not_interrupt_the_clearing_up(tmp_path: Path) -> None:
    ran = ended(
        """
interrupts.end_on_signals(KeyboardInterrupt)
try:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
finally:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
    print("cleared up")
    sys.stdout.flush()
    os._exit(7)
""",
        tmp_path,
    )
    assert (ran.returncode, ran.stdout) == (7, "cleared up\n")
