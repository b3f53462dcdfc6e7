"""Whether a change of the code changes what onnxq writes: `python -m benchmarks.same_bytes --quick`.

    python -m benchmarks.same_bytes --quick --tree ../before --out out/before.json
    python -m benchmarks.same_bytes --quick --against out/before.json

Each model goes through each mode (`MODES`), every command in a fresh process of the checkout that is asked
about. What it writes is kept as hashes: of models, of plan files, and of the JSON document without what no
two runs have in common: times, memory, the folder, onnxq's version. `--quick` takes six sample models;
without it there are also thirty of ONNXQ_CORPUS. A mode is written down when it is done, and not run again.

Commands run in a folder of their own and name files in it, so that paths are the same. The seed of Python's
hashes is fixed; with `--hash-seed` it is another one, and nothing may differ. `--keep DIR` keeps documents
and models, for `diff -r`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import corpus_data
from benchmarks.corpus import write_samples

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT = 1800  # s, for a command; what does not end is not written down

Result = dict[str, Any]
"""Of one mode: `exit` codes, `files` and `documents` by name as SHA-256, `seconds`, which nobody compares."""


class Mode(NamedTuple):
    """Commands that run one after another in a model's folder.

    Attributes:
        commands: the words behind `onnxq`; each prints one JSON document.
        after: the mode whose files they read.
    """

    commands: tuple[str, ...]
    after: str = ""


# Errors by layer of so many samples: by themselves they would be of fewer where the machine is slow.
_QUANTIZE = "quantize model.onnx --calib {calib}"
_REPORT = "[report]\nno_page = true\nlayer_samples = 2\n"
SETTINGS = {"onnxq.toml": _REPORT, "loud.toml": f'{_REPORT}[format]\nloud = "auto"\n'}
MODES = {
    "default": Mode((f"{_QUANTIZE} -o default.onnx",)),
    "goal": Mode((f"{_QUANTIZE} --no-engine --min-sqnr {{goal}} -o goal.onnx",)),
    "plan": Mode(
        (
            "plan model.onnx --calib {calib} -o plan.toml",
            f"{_QUANTIZE} --no-engine --plan plan.toml -o plan.onnx",
        )
    ),
    "loud": Mode((f"{_QUANTIZE} --no-engine --config loud.toml -o loud.onnx",)),
    "sanitize": Mode(("sanitize model.onnx --calib {calib} --body fp16 -o sanitize.onnx",)),
    "check": Mode(("check model.onnx",)),
    "analyze": Mode(("analyze model.onnx default.onnx --data {calib}",), after="default"),
}


class Net(NamedTuple):
    """A sample model: its file and its data below sample_models/, "" for random data, and a goal, dB.

    The goal is some dB beyond what the model has by itself, so that there is something to search.
    """

    model: str
    data: str
    goal: float


SAMPLES = {
    "digits": Net("digits/digits.onnx", "digits/calib", 44),
    "stereo": Net("stereo/stereo.onnx", "stereo/calib.npz", 54),
    "detector": Net("detector/detector.onnx", "detector/calib.npz", 14),
    "interpolate": Net("interpolate/interpolate_17.onnx", "interpolate/calib.npz", 26),
    "initializers": Net(
        "initializers_as_inputs/initializers_as_inputs.onnx", "initializers_as_inputs/calib.npz", 38
    ),
    "squeeze": Net("squeeze_if/squeeze_conv.onnx", "", 40),
}
_GOAL = 30  # dB, of the corpus
_RANDOM = (24, (1, 1, 16, 8, 8))  # the samples of a net without data, and their shape

# Of the corpus: each kind of net once or twice, those first that take seconds.
CORPUS = (
    "iris_mlp_winml", "mnist_cntk_ortie", "cifar10_pytorch_winml", "tract_qlstm", "tract_lgbm_regressor",
    "xfeat_interp_bicubic", "trt_polygraphy_needs_constraints", "trt_polygraphy_debug02", "genai_tiny_lfm2",
    "dtln_model_2", "magika_v3_3", "silero_vad_op18_ifless", "silero_vad_openvino_16k", "silero_vad_half",
    "ortext_superres", "mobilenetv2_0.35_128_flowers_st", "trt_polygraphy_residual_block", "yunet_120x160",
    "ultraface_rfb320_simplified", "CONV_mobilenetv1_0.25_224_keras", "CONV_squeezenet_winml_fp32",
    "person_reid_0248", "osf_mnv3_detection", "light_squeezenet", "gtcrn_simple", "ppocr_cls_v2",
    "nanodet_m_416_mot", "ortext_fastestdet", "agllnet_256", "deeplabv3_mnv2_pascal",
)  # fmt: skip


def main() -> int:
    """Runs what is missing; 1 where something differs from `--against`."""
    given = _arguments()
    commands: dict[str, Any] = {name: list(mode.commands) for name, mode in MODES.items()}
    commands["goals"] = {name: net.goal for name, net in SAMPLES.items()} | {"corpus": _GOAL}
    header = {"code": code_hash(given.tree), "hash_seed": given.hash_seed, "packages": _packages()}
    header["commands"] = commands
    given.out = given.out or ROOT / "out/same_bytes" / f"{header['code'][:12]}.json"
    known = opened(given.out, header)
    names = [*SAMPLES, *(() if given.quick else CORPUS)]
    names = [name for name in names if any(fnmatchcase(name, glob) for glob in given.models)]
    began, missed = time.monotonic(), []
    for name in names:
        for mode, result in _results(name, given, known["runs"].get(name, {})):
            if result is None:
                missed.append(f"{name}, {mode}")
                continue
            known["runs"].setdefault(name, {})[mode] = result
            write(given.out, known)
    print(f"{len(names)} models in {time.monotonic() - began:.0f} s: {given.out}")
    for one in missed:
        print(f"did not end within {TIMEOUT} s: {one}")
    if given.against is None:
        return 1 if missed else 0
    other = json.loads(given.against.read_text("utf-8"))
    return 1 if _compared(other, known, names, given.modes) or missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_bytes")
    parser.add_argument("--quick", action="store_true", help="the six sample models only")
    parser.add_argument(
        "--models", nargs="+", default=["*"], metavar="GLOB", help="only models of these names"
    )
    parser.add_argument("--modes", nargs="+", default=[*MODES], choices=[*MODES], metavar="MODE",
                        help=f"only these: {', '.join(MODES)}")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="what was run; out/same_bytes/CODE.json by default")  # fmt: skip
    parser.add_argument("--against", type=Path, metavar="FILE", help="say what is otherwise there")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="the checkout that is run")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep models and documents, for diff -r")
    parser.add_argument("--hash-seed", default="0", metavar="N", help="Python's PYTHONHASHSEED")
    given = parser.parse_args()
    given.tree = given.tree.resolve()
    if not (given.tree / "onnxq/__init__.py").is_file():
        parser.error(f"--tree {given.tree}: no checkout of onnxq")
    if not given.quick and not os.environ.get("ONNXQ_CORPUS"):
        parser.error("ONNXQ_CORPUS names no folder of models: set it, or give --quick")
    return given


# --- what is run ----------------------------------------------------------------------------------


def code_hash(tree: Path) -> str:
    """SHA-256 of all that a checkout runs: the package and the rules, as they lie there."""
    files = (path for part in ("onnxq", "rules") for path in (tree / part).rglob("*") if path.is_file())
    found = hashlib.sha256()
    for path in sorted(path for path in files if "__pycache__" not in path.parts):
        content = path.read_bytes()
        found.update(f"{path.relative_to(tree).as_posix()} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def _packages() -> dict[str, str]:
    """The versions of what the results depend on."""
    wanted = ("numpy", "onnx", "onnxruntime", "onnx-graphsurgeon", "tensorrt-rtx")
    have = {
        dist.metadata["Name"].replace("_", "-").lower(): dist.version for dist in metadata.distributions()
    }
    return {"python": sys.version.split()[0]} | {name: have.get(name, "") for name in wanted}


def opened(path: Path, header: Mapping[str, Any]) -> dict[str, Any]:
    """What was run before, by the same code alone: else old hashes would stand for new ones."""
    if not path.is_file():
        return {**header, "runs": {}}
    known: dict[str, Any] = json.loads(path.read_text("utf-8"))
    for key, value in header.items():
        if known.get(key) != value:
            raise SystemExit(f"{path} was made with other {key}: give another --out, or remove it")
    return known


def write(path: Path, known: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f"{path.name}.part")  # an interrupted run leaves the file whole
    half.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    half.replace(path)


def _results(
    name: str, given: argparse.Namespace, known: Mapping[str, Result]
) -> Iterator[tuple[str, Result | None]]:
    """What the modes that are not known yet give for a model; None where one did not end."""
    wanted = [mode for mode in given.modes if mode not in known]
    if not wanted:
        return
    with tempfile.TemporaryDirectory(prefix="onnxq-same-") as path:
        folder = Path(path).resolve()
        calib = place(name, folder)
        goal = SAMPLES[name].goal if name in SAMPLES else _GOAL
        runner = Runner(given.tree, folder, {"calib": calib, "goal": goal}, given.hash_seed)
        made = set()
        for mode in wanted:
            needs = MODES[mode].after
            print(f"\r\033[K{name}: {mode}", end="", file=sys.stderr, flush=True)
            if needs and needs not in made and runner.run(needs)[0] is None:
                yield mode, None
                continue
            result, documents = runner.run(mode)
            if result is not None:
                made.add(mode)
            if given.keep is not None and result is not None:
                _keep(given.keep / name / mode, folder, result, documents)
            yield mode, result
    print("\r\033[K", end="", file=sys.stderr, flush=True)


def place(name: str, folder: Path) -> str:
    """Puts a model, as `model.onnx`, its samples and the settings into a folder; the samples' name there."""
    for file, text in SETTINGS.items():
        (folder / file).write_text(text, encoding="utf-8")
    if name in SAMPLES:
        net = SAMPLES[name]
        shutil.copy(ROOT / "sample_models" / net.model, folder / "model.onnx")
        if not net.data:
            random, (count, shape) = np.random.default_rng(0), _RANDOM
            values = (random.standard_normal(shape, np.float32) for _ in range(count))
            write_samples(folder / "calib", [{"x": one} for one in values])
            return "calib"
        source = ROOT / "sample_models" / net.data
        calib = f"calib{source.suffix}"
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / calib)
        return calib
    corpus = Path(os.environ["ONNXQ_CORPUS"]).resolve()
    entries = json.loads((corpus / "manifest.json").read_text("utf-8"))
    entry = next(entry for entry in entries if entry["name"] == name)
    shutil.copy(corpus / "models" / f"{name}.onnx", folder / "model.onnx")
    _, calibration, held_out = corpus_data.samples(corpus, entry)
    write_samples(folder / "calib", [*calibration, *held_out])
    return "calib"


class Runner:
    """Runs modes of one model, each command in a process of its own."""

    def __init__(self, tree: Path, folder: Path, words: Mapping[str, object], hash_seed: str = "0") -> None:
        """Begins; `folder` holds the model and the samples, `words` is what commands have in braces."""
        self._folder, self._words = folder, words
        self._environment = {
            **os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": hash_seed,
            "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        found = subprocess.run([sys.executable, "-c", "import onnxq; print(onnxq.__file__)"], cwd=folder,
                               env=self._environment, capture_output=True, text=True, check=True)  # fmt: skip
        if not Path(found.stdout.strip()).is_relative_to(tree):
            raise SystemExit(f"the code of {found.stdout.strip()} would be run, not that of {tree}")

    def run(self, mode: str) -> tuple[Result | None, list[str]]:
        """Hashes, and the documents as they are hashed; None where a command does not end in time."""
        began, exits, documents = time.monotonic(), [], []
        before = self._stamps()
        for words in MODES[mode].commands:
            command = [
                sys.executable,
                "-m",
                "onnxq",
                "-q",
                *words.format(**self._words).split(),
                "--json",
            ]
            try:
                done = subprocess.run(command, cwd=self._folder, env=self._environment, capture_output=True,
                                      text=True, timeout=TIMEOUT)  # fmt: skip
            except subprocess.TimeoutExpired:
                return None, []
            exits.append(done.returncode)
            documents.append(normalized(done.stdout, self._folder))
        after = self._stamps()
        written = [path for path in sorted(after) if after[path] != before.get(path)]
        result = {
            "exit": exits,
            "files": {
                path.name: self._hash(path) for path in written if not path.name.endswith(".report.json")
            },
            "documents": [hashlib.sha256(text.encode()).hexdigest() for text in documents],
            "seconds": round(time.monotonic() - began, 1),
        }
        return result, documents

    def _stamps(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self._folder.iterdir() if path.is_file()}

    def _hash(self, path: Path) -> str:
        if path.suffix != ".toml":
            return hashlib.sha256(path.read_bytes()).hexdigest()
        text = re.sub(r'(?m)^onnxq = ".*"$', "", path.read_text("utf-8"))
        return hashlib.sha256(text.encode()).hexdigest()


def normalized(document: str, folder: Path) -> str:
    """A JSON document without what differs from run to run; other text without the folder only.

    By place, not by name: a figure of the same name may be a result elsewhere.
    """
    document = document.replace(str(folder), "")
    try:
        found = json.loads(document)
    except ValueError:
        return document
    if not isinstance(found, dict):
        return document
    for key in ("seconds", "peak_memory_mb", "onnxq"):
        if key in found:
            found[key] = None
    if isinstance(found.get("phases"), dict):
        found["phases"] = dict.fromkeys(found["phases"])
    if isinstance(found.get("engine"), dict) and "seconds" in found["engine"]:
        found["engine"]["seconds"] = None
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _keep(folder: Path, work: Path, result: Result, documents: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(documents):
        (folder / f"{number}.json").write_text(text, encoding="utf-8")
    for name in result["files"]:
        shutil.copy(work / name, folder)


# --- what differs ---------------------------------------------------------------------------------


def differences(old: Mapping[str, Result], new: Mapping[str, Result]) -> dict[str, list[str]]:
    """What is otherwise in one model's results, by mode; modes that one of them lacks are told as such."""
    found = {}
    for mode in MODES:
        if mode not in old and mode not in new:
            continue
        if mode not in old or mode not in new:
            found[mode] = ["not run before" if mode in new else "not run now"]
            continue
        one, other = old[mode], new[mode]
        lines = [] if one["exit"] == other["exit"] else [f"exit {one['exit']} -> {other['exit']}"]
        names = sorted(one["files"].keys() | other["files"].keys())
        lines += [name for name in names if one["files"].get(name) != other["files"].get(name)]
        lines += ["document"] if one["documents"] != other["documents"] else []
        if lines:
            found[mode] = lines
    return found


def _compared(
    old: Mapping[str, Any], new: Mapping[str, Any], names: Sequence[str], modes: Sequence[str]
) -> bool:
    """Prints what differs in these models and modes; whether anything does."""
    for key in ("packages", "hash_seed", "commands"):
        if old.get(key) != new[key]:
            print(f"other {key}: {old.get(key)} -> {new[key]}")
    rows = []
    for name in names:
        pair = [
            {mode: one for mode, one in runs["runs"].get(name, {}).items() if mode in modes}
            for runs in (old, new)
        ]
        rows += [(name, mode, ", ".join(lines)) for mode, lines in differences(*pair).items()]
    for name, mode, text in rows:
        print(f"{name:<36} {mode:<10} {text}")
    count = sum(len(new["runs"].get(name, {}).keys() & set(modes)) for name in names)
    print(f"{len(rows)} of {count} runs differ" if rows else f"all {count} runs are the same")
    return bool(rows)


if __name__ == "__main__":
    sys.exit(main())
