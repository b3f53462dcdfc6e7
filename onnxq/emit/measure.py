#!/usr/bin/env python3
"""Measures the models of a bundle on the machine that runs them, and says which one to use.

    python3 measure.py [--tool trtexec] [--time-limit SECONDS]

It needs Python 3.8, numpy, and trtexec of the TensorRT that is going to run the model (or tensorrt_rtx). Each
model is built once, in a process of its own. What its engine answers is compared with what the float model
answered where the bundle was made. Then the engines are timed in turns, and it stops as soon as they are told
apart. It sends nothing and changes no setting of the machine. What was measured is in results.json: a run that
was interrupted goes on there.

`onnxq bundle` wrote it; it uses nothing else of onnxq.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

FORMAT = 1
MANIFEST, RESULTS, SCRIPT = "manifest.json", "results.json", "measure.py"
LEAST_GAIN = 0.02
"""What a model has to gain beside float16 to be worth its accuracy: less is within what a rebuild changes."""
ROUNDS = (5, 40)
"""The fewest and the most rounds of timing."""
PLACES = ("/usr/src/tensorrt/bin/trtexec", "/opt/tensorrt/bin/trtexec", "/usr/local/tensorrt/bin/trtexec")
_NO_GPU = re.compile(
    r"no CUDA-capable device|CUDA driver version is insufficient|Cuda failure: 35|CUDA_ERROR_NO"
)
_VERSION = re.compile(r"\[TensorRT(?:-RTX)? v(\d+)\]")

_NO_NUMBER = re.compile(r"(?<=[\s,\[])-?(?:nan|inf)(?=[\s,\]])", re.IGNORECASE)
_JSON = {"nan": "NaN", "-nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""What trtexec writes of what is no number, and JSON."""

Results = Dict[str, Any]


class NotMeasured(Exception):
    """What cannot be measured, why, and what to do."""


# -- the bundle ---------------------------------------------------------------------------------------


class BundleFolder:
    """A folder that `onnxq bundle` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / MANIFEST
        try:
            self.manifest = json.loads(path.read_text("utf-8"))
            self.candidates = {one["name"]: one for one in self.manifest["candidates"]}
            self.files = dict(self.manifest["files"])
        except FileNotFoundError:
            raise NotMeasured(
                f"{folder} has no manifest.json: run measure.py in the folder that onnxq bundle wrote"
            )
        except (ValueError, KeyError, TypeError) as error:
            raise NotMeasured(f"{path} cannot be read ({error}): copy the folder again")
        said = [str(self.manifest.get(key)) for key in ("model_sha256", "target", "device")]
        said += [str(self.files.get(name)) for name in self.manifest["samples"]]
        self.hash = hashlib.sha256("|".join(said).encode("utf-8")).hexdigest()

    def check(self) -> None:
        """Refuses a folder with a file that is missing or another one, or a disk without room for engines."""
        for name, wanted in self.files.items():
            path = self.folder / name
            if not path.is_file():
                raise NotMeasured(f"{name} is missing: copy the folder again")
            if sha256(path) != wanted:
                raise NotMeasured(
                    f"{name} is not the file that was bundled (its hash differs): copy the folder again"
                )
        need = 2 * sum((self.folder / one["file"]).stat().st_size for one in self.candidates.values())
        free = shutil.disk_usage(self.folder).free
        if free < need:
            raise NotMeasured(
                f"the engines may take {need / 1e6:.0f} MB, and {free / 1e6:.0f} MB are free in {self.folder}"
            )

    def samples(self) -> Iterator[Tuple[Dict[str, np.ndarray], Dict[str, np.ndarray]]]:
        """The inputs and the float model's outputs of each sample."""
        for name in self.manifest["samples"]:
            with np.load(self.folder / name, allow_pickle=False) as held:
                yield tuple(  # type: ignore[misc]
                    {
                        one["name"]: held[f"{kind}{place}"]
                        for place, one in enumerate(self.manifest[kind + "puts"])
                    }
                    for kind in ("in", "out")
                )


def sha256(path: Path) -> str:
    """The hash of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for part in iter(lambda: file.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()


# -- trtexec ------------------------------------------------------------------------------------------


class Tool:
    """trtexec, or tensorrt_rtx, which takes the same flags.

    Attributes:
        path: the command.
        version: of TensorRT, as (10, 3).
        graph: whether engines run in a CUDA graph.
    """

    def __init__(self, path: str) -> None:
        self.path, self.graph = path, True
        code, text = self.run(["--help"], 60)
        found = _VERSION.search(text)
        if found is None:
            raise NotMeasured(
                f"{path} does not say its version, and ends with {code}: give trtexec with --tool"
            )
        number = int(found[1])
        major, rest = divmod(number, 10000) if number >= 100000 else divmod(number, 1000)
        self.version = (major, rest // 100)

    @staticmethod
    def find(given: Optional[str], wanted: str) -> "Tool":
        """The one that is given, or is there."""
        names = [given] if given else [wanted, *(PLACES if wanted == "trtexec" else ())]
        for name in names:
            path = shutil.which(name)
            if path:
                return Tool(path)
        raise NotMeasured(
            f"there is no {names[0]} here: give its path with --tool, as --tool /usr/src/tensorrt/bin/trtexec"
        )

    def run(self, words: Sequence[str], seconds: float) -> Tuple[int, str]:
        """Runs it in a process of its own; the exit code (negative: the signal that ended it) and what it said."""
        process = subprocess.Popen(
            [self.path, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            said = process.communicate(timeout=seconds)[0]
        except BaseException as error:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                process.kill()
            said = process.communicate()[0]
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return 124, said.decode("utf-8", "replace")
        return process.returncode, said.decode("utf-8", "replace")


# -- measuring ----------------------------------------------------------------------------------------


class Measuring:
    """One run of it.

    Attributes:
        bundle: the folder.
        tool: what builds and runs engines.
        until: when it has to end, on the clock of `time.monotonic`.
        results: what is known so far.
    """

    def __init__(self, bundle: BundleFolder, tool: Tool, seconds: float, say: Callable[[str], None]) -> None:
        self.bundle, self.tool, self.say = bundle, tool, say
        self.until = time.monotonic() + seconds
        self.path = bundle.folder / RESULTS
        self.results = self._begun()

    def _begun(self) -> Results:
        own = {
            "format": FORMAT, "bundle": self.bundle.hash, "model": self.bundle.manifest["model_sha256"],
            "tensorrt": "{}.{}".format(*self.tool.version), "device": device_name(), "machine": platform.machine(),
        }  # fmt: skip
        if not self.path.is_file():
            return {**own, "date": now(), "candidates": {}, "answer": []}
        try:
            held = json.loads(self.path.read_text("utf-8"))
            held["candidates"].keys()
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NotMeasured(f"{self.path} cannot be read: move it away to measure anew")
        for key, what in (
            ("bundle", "another bundle"),
            ("tensorrt", "another TensorRT"),
            ("device", "another device"),
        ):
            if held.get(key) != own[key]:
                raise NotMeasured(
                    f"results.json is of {what} ({held.get(key)}): move it away to measure anew"
                )
        return dict(held)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.until - time.monotonic()

    def save(self) -> None:
        """Writes what is known."""
        beside = self.path.with_suffix(".json.part")
        try:
            beside.write_text(json.dumps(self.results, indent=1), "utf-8")
            os.replace(beside, self.path)
        except OSError as error:
            raise NotMeasured(f"results.json cannot be written: {error}")

    def entry(self, name: str) -> Dict[str, Any]:
        """What is known of a candidate."""
        entry: Dict[str, Any] = self.results["candidates"].setdefault(
            name, {"status": "new", "why": "", "ms": {}}
        )
        return entry

    # A candidate that is refused, crashes or answers wrongly is a result, not the end.

    def build(self, name: str) -> None:
        """Builds an engine once."""
        entry, one = self.entry(name), self.bundle.candidates[name]
        engine = self.bundle.folder / f"{name}.engine"
        if entry["status"] != "new" and (engine.is_file() or entry["status"] not in ("built", "right")):
            return
        words = [f"--onnx={self.bundle.folder / one['file']}", f"--saveEngine={engine}", *one["build"]]
        if self.bundle.manifest["explains"]:
            words += [
                "--profilingVerbosity=detailed",
                "--dumpProfile",
                "--separateProfileRun",
                "--iterations=10",
            ]
            words += [
                f"--exportLayerInfo={self.bundle.folder / name}.layers.json",
                f"--exportProfile={self.bundle.folder / name}.times.json",
            ]
        else:
            words.append("--skipInference" if self.tool.version >= (8, 5) else "--buildOnly")
        self.say(f"building {name}")
        since = time.monotonic()
        code, text = self.tool.run(words, max(self.left, 1))
        (self.bundle.folder / f"{name}.build.log").write_text(text, "utf-8")
        entry["build_seconds"] = round(time.monotonic() - since, 1)
        if code and _NO_GPU.search(text):
            raise NotMeasured("there is no GPU here that TensorRT can use: run measure.py on the device")
        if code == 124 and self.left <= 1:
            raise TimeoutError
        entry["status"], entry["why"] = (
            ("built", "") if code == 0 and engine.is_file() else failed(code, text)
        )
        self.save()

    def verify(self, name: str) -> None:
        """Compares what an engine answers with what the float model answered."""
        entry, one = self.entry(name), self.bundle.candidates[name]
        if entry["status"] != "built":
            return
        entry["outputs_db"] = {}
        power: Dict[str, List[float]] = {}
        for place, (inputs, wanted) in enumerate(self.bundle.samples()):
            code, text = self.tool.run(self._fed(name, inputs, place), min(300.0, max(self.left, 1)))
            if code and self.tool.graph:  # of one engine that cannot be captured none is
                self.tool.graph = False
                code, text = self.tool.run(self._fed(name, inputs, place), min(300.0, max(self.left, 1)))
            if code:
                if code == 124 and self.left <= 1:
                    raise TimeoutError
                entry["status"], entry["why"] = failed(code, text)
                break
            found = self._answers(name)
            for output, values in wanted.items():
                if output not in found or found[output].size != values.size:
                    entry["status"], entry["why"] = (
                        "wrong",
                        f"the engine does not give output {output} as the model does",
                    )
                    break
                signal_power, noise = powers(values.ravel(), found[output])
                told = power.setdefault(output, [0.0, 0.0])
                told[0] += signal_power
                told[1] += noise
        if entry["status"] == "built":
            entry["outputs_db"] = {output: decibels(*both) for output, both in power.items()}
            entry["status"], entry["why"] = self._judged(one, entry["outputs_db"])
        self.save()

    @staticmethod
    def _judged(one: Dict[str, Any], found: Dict[str, float]) -> Tuple[str, str]:
        """An engine may be so much less near than the file was in onnxruntime, on the same samples."""
        for output, level in found.items():
            known = min(one["outputs_db"].get(output, 40.0), 40.0)
            least = known - 6 if known > 12 else known / 2
            if not level >= least:
                return (
                    "wrong",
                    f"output {output} is {level:.1f} dB from the float model's, where {known:.1f} dB were expected",
                )
        return "right", ""

    def _fed(self, name: str, inputs: Dict[str, np.ndarray], place: int) -> List[str]:
        folder, given = self.bundle.folder / "fed", []
        folder.mkdir(exist_ok=True)
        for number, (key, values) in enumerate(inputs.items()):
            narrow = values.dtype == np.int64 and self.tool.version < (9, 0)  # older ones bind them as int32
            path = folder / f"{place}.{number}.bin"
            (values.astype(np.int32) if narrow else values).tofile(str(path))
            given.append(f"{quoted(key)}:{path}")
        shapes = ",".join(
            f"{quoted(key)}:{'x'.join(map(str, values.shape))}" for key, values in inputs.items()
        )
        dynamic = [f"--shapes={shapes}"] if self.bundle.manifest["dynamic"] else []
        return [
            *self._loaded(name), *dynamic, f"--loadInputs={','.join(given)}", f"--exportOutput={folder / 'out.json'}",
            "--warmUp=0", "--duration=0", "--iterations=1",
        ]  # fmt: skip

    def _answers(self, name: str) -> Dict[str, np.ndarray]:
        try:
            text = (self.bundle.folder / "fed" / "out.json").read_text("utf-8")
            held = json.loads(_NO_NUMBER.sub(lambda one: _JSON[one[0].lower()], text))
            return {one["name"]: np.array(one["values"], np.float64) for one in held}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def _loaded(self, name: str) -> List[str]:
        return [f"--loadEngine={self.bundle.folder / name}.engine", *["--useCudaGraph"] * self.tool.graph]

    def time(self, names: Sequence[str]) -> None:
        """Times engines in turns, in another order each round, until they are told apart or the time is over."""
        done = min((len(self.entry(name)["ms"]) for name in names), default=0)
        for number in range(done, ROUNDS[1]):
            if number >= ROUNDS[0] and apart(self.times(names)):
                break
            turn = number % len(names)
            for name in (*names[turn:], *names[:turn]):
                if self.left < 2:
                    raise TimeoutError
                ms = self._timed(name)
                if ms is None:
                    self.entry(name).update(status="failed", why="its engine does not run any more")
                    self.save()
                    self.time([one for one in names if one != name])
                    return
                self.entry(name)["ms"][str(number)] = ms
            self.results.setdefault("clocks", {})[str(number)] = clocks()
            self.save()
            self.say(
                f"round {number + 1}: "
                + ", ".join(f"{n} {self.entry(n)['ms'][str(number)]:.3f} ms" for n in names)
            )

    def _timed(self, name: str) -> Optional[float]:
        """The median of an engine's runs on the GPU, ms; None: it does not run."""
        file = self.bundle.folder / "fed" / "times.json"
        shapes = [f"--shapes={self.bundle.manifest['dynamic']}"] if self.bundle.manifest["dynamic"] else []
        words = [
            *self._loaded(name),
            *shapes,
            "--warmUp=200",
            "--duration=1",
            "--iterations=20",
            "--noDataTransfers",
        ]
        file.parent.mkdir(exist_ok=True)
        if file.is_file():
            file.unlink()
        code, _ = self.tool.run([*words, f"--exportTimes={file}"], min(120.0, max(self.left, 1)))
        if code == 124 and self.left <= 1:
            raise TimeoutError
        try:
            runs = [float(one["computeMs"]) for one in json.loads(file.read_text("utf-8"))]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return float(np.median(runs)) if code == 0 and runs else None

    def times(self, names: Sequence[str]) -> Dict[str, List[float]]:
        """The times of the rounds that all of them ran in, ms."""
        return common({name: self.entry(name)["ms"] for name in names})

    def run(self) -> List[str]:
        """Builds, compares and times; the answer, in lines."""
        late, names = False, list(self.bundle.candidates)
        try:
            for name in names:
                self.build(name)
            for name in names:
                self.verify(name)
            right = [name for name in names if self.entry(name)["status"] == "right"]
            if len(right) > 1:
                self.time(right)
        except TimeoutError:
            late = True
        right = [name for name in names if self.entry(name)["status"] == "right"]
        self.results["answer"], self.results["chosen"] = answer(self, right, late=late)
        self.save()
        return list(self.results["answer"])


def common(ran: Dict[str, Dict[str, float]]) -> Dict[str, List[float]]:
    """The times of the rounds that all ran in, in order."""
    rounds = sorted(set.intersection(*(set(one) for one in ran.values())), key=int) if ran else []
    return {name: [one[number] for number in rounds] for name, one in ran.items()}


def read_results(held: Results) -> Tuple[Dict[str, List[float]], Tuple[str, ...]]:
    """The times of the rounds that all right candidates ran in, ms, by candidate; and the answer."""
    right = {name: one["ms"] for name, one in held["candidates"].items() if one["status"] == "right"}
    return common(right), tuple(map(str, held["answer"]))


def failed(code: int, text: str) -> Tuple[str, str]:
    """What came of a process: how it ended, and the last error that it told."""
    errors = [line for line in text.splitlines() if "[E]" in line or "rror" in line]
    said = re.sub(r"^(?:\[[^\]]*\] )+", "", errors[-1].strip())[:300] if errors else f"it ended with {code}"
    if code == 124:
        return "late", "it took longer than the time that is left"
    return (
        ("crashed", f"it was ended by signal {-code}: {said}")
        if code < 0 or code > 128
        else ("refused", said)
    )


def quoted(name: str) -> str:
    """A name as trtexec takes it in its lists."""
    return f"'{name}'" if ":" in name or "," in name else name


def powers(wanted: np.ndarray, found: np.ndarray) -> Tuple[float, float]:
    """The power of what is wanted about its mean, and that of the difference; where the float model is finite."""
    finite = np.isfinite(wanted)
    wanted, found = wanted[finite].astype(np.float64), found[finite]
    if not wanted.size:
        return 0.0, 0.0
    noise = float(((wanted - found) ** 2).mean()) if np.isfinite(found).all() else math.inf
    return float(((wanted - wanted.mean()) ** 2).mean()), noise


def decibels(power: float, noise: float) -> float:
    """Their ratio, dB, at most 99.9."""
    if noise == 0:
        return 99.9
    return min(99.9, 10 * math.log10(max(power, 1e-30) / noise)) if math.isfinite(noise) else -99.9


# -- telling apart ------------------------------------------------------------------------------------

_T95 = {
    4: 2.78,
    5: 2.57,
    6: 2.45,
    7: 2.36,
    8: 2.31,
    9: 2.26,
    10: 2.23,
    12: 2.18,
    15: 2.13,
    20: 2.09,
    30: 2.04,
}
"""Student's t of 95 %, two-sided, by degrees of freedom."""


def ratio(one: Sequence[float], other: Sequence[float]) -> Tuple[float, float, float]:
    """How long one takes beside the other, and the ends of its 95 % interval; of the same rounds.

    Clocks that drift move both times of a round: logarithms of their ratios are averaged.
    """
    logs = [math.log(a / b) for a, b in zip(one, other)]
    mean = sum(logs) / len(logs)
    free = len(logs) - 1
    if free < 1:
        return math.exp(mean), 0.0, math.inf
    spread = math.sqrt(sum((value - mean) ** 2 for value in logs) / free / len(logs))
    wide = spread * next((t for most, t in sorted(_T95.items(), reverse=True) if free >= most), 12.7)
    return math.exp(mean), math.exp(mean - wide), math.exp(mean + wide)


def fastest(times: Dict[str, List[float]]) -> str:
    """The one with the least time."""
    return min(times, key=lambda name: sum(map(math.log, times[name])))


def apart(times: Dict[str, List[float]]) -> bool:
    """Whether the fastest is known: each other one is slower, or within half of `LEAST_GAIN` of it."""
    best = fastest(times)
    for name in times:
        _, low, high = ratio(times[name], times[best])
        if name != best and not (low > 1 or high < 1 + LEAST_GAIN / 2):
            return False
    return True


def answer(measuring: Measuring, right: Sequence[str], *, late: bool) -> Tuple[List[str], Optional[str]]:
    """Which file to use, how much faster it is, how near; and its name."""
    known, times = measuring.bundle.candidates, measuring.times(right)
    entries = measuring.results["candidates"]
    bad = [
        f"{name}: {entries[name]['status']}: {entries[name]['why']}"
        for name in entries
        if is_bad(entries[name])
    ]
    base = measuring.bundle.manifest["baseline"]
    again = "The time was over before all was measured: run measure.py again, it goes on"
    if len(right) < 2 and not late:
        one = right[0] if right else None
        use = (
            f"Use {known[one]['file']}: no other engine is right"
            if one
            else "Use none of them: no engine is right"
        )
        return [use, *bad], one
    if base not in right or not times[base]:
        why = "" if late else f"{base} is not right, so nothing is known to be faster than it"
        return ["Not known: " + (why or again), *bad], None
    chosen = choose(times, base, {name: known[name]["near_db"] for name in right})
    best = fastest(times)
    said = "{:.2f} times as fast as {} ({:.2f} to {:.2f}, {} rounds)"
    if chosen == base:
        took, low, high = ratio(times[best], times[base])
        other = (
            f"; {best} is " + said.format(1 / took, base, 1 / high, 1 / low, len(times[base]))
            if best != base
            else ""
        )
        lines = [
            f"Use {known[base]['file']}: int8 gains less than {LEAST_GAIN:.0%} here, or it is not shown{other}"
        ]
    else:
        took, low, high = ratio(times[chosen], times[base])
        lines = [
            f"Use {known[chosen]['file']}: "
            + said.format(1 / took, base, 1 / high, 1 / low, len(times[base]))
        ]
    lines.append(
        f"It takes {median(times[chosen]):.3f} ms on {measuring.results['device']},"
        f" TensorRT {measuring.results['tensorrt']}"
    )
    lines.append(f"Measured where it was made: {known[chosen]['near']}")
    return [*lines, *[again] * late, *bad], chosen


def is_bad(entry: Dict[str, Any]) -> bool:
    """Whether a candidate is out."""
    return entry["status"] not in ("right", "new", "built")


def choose(times: Dict[str, List[float]], base: str, near_db: Dict[str, float]) -> str:
    """The one to use.

    Of those that are about as fast as the fastest it is the nearest to the float model. It is the baseline where
    that one gains less than `LEAST_GAIN`, or its gain is not shown.
    """
    best = fastest(times)
    near = [name for name in times if ratio(times[name], times[best])[0] < 1 + LEAST_GAIN / 2]
    chosen = max(near, key=lambda name: (name == base, near_db[name]))
    took, _, high = ratio(times[chosen], times[base])
    return chosen if took < 1 - LEAST_GAIN and high < 1 else base


def median(values: Sequence[float]) -> float:
    """The median."""
    return float(np.median(values))


# -- the machine --------------------------------------------------------------------------------------


def asked_of_gpu(fields: str) -> str:
    """What nvidia-smi says of the first GPU; "" where it is not there, as on Jetson."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else ""


def device_name() -> str:
    """The name of the GPU, or of the board."""
    board = Path("/proc/device-tree/model")
    if board.is_file():
        return board.read_text("utf-8", "replace").strip("\0 \n")
    return asked_of_gpu("name") or platform.node()


def clocks() -> str:
    """Clocks and temperature now; "" where nothing says them."""
    said = asked_of_gpu("clocks.sm,clocks.mem,temperature.gpu")
    zones = sorted(Path("/sys/class/thermal").glob("thermal_zone*/temp"))
    if said or not zones:
        return said
    try:
        return f"{max(int(zone.read_text()) for zone in zones) / 1000:.0f} C"
    except (OSError, ValueError):
        return ""


def now() -> str:
    """The date and the time, UTC."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")


def main(words: Optional[Sequence[str]] = None) -> int:
    """Measures a bundle; the exit code: 0 answered, 1 not known, 2 it cannot be measured here."""
    parser = argparse.ArgumentParser(
        description="Measure the models of a bundle here, and say which one to use."
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(__file__).resolve().parent, help="the bundle"
    )
    parser.add_argument(
        "--tool", metavar="PATH", help="trtexec or tensorrt_rtx; by default the one that is found"
    )
    parser.add_argument(
        "--time-limit", type=float, default=1800, metavar="SECONDS", help="how long it may take; 1800"
    )
    parser.add_argument(
        "--any-version", action="store_true", help="measure with another TensorRT than the bundle's"
    )
    asked = parser.parse_args(words)
    try:
        bundle = BundleFolder(asked.folder)
        bundle.check()
        tool = Tool.find(asked.tool, bundle.manifest["tool"])
        wanted = str(bundle.manifest["tensorrt"])
        if (
            wanted
            and not asked.any_version
            and wanted.split(".") != [str(n) for n in tool.version[: wanted.count(".") + 1]]
        ):
            raise NotMeasured(
                "this is TensorRT {}.{}, and the bundle is for {}: make it with --target {}.{}, or give --any-version".format(
                    *tool.version, wanted, *tool.version
                )
            )
        measuring = Measuring(
            bundle, tool, asked.time_limit, lambda line: print(line, file=sys.stderr, flush=True)
        )
        print("\n".join(measuring.run()))
    except NotMeasured as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: run it again, it goes on", file=sys.stderr)
        return 130
    return 0 if measuring.results["chosen"] and measuring.results["answer"][0].startswith("Use") else 1


if __name__ == "__main__":
    sys.exit(main())
