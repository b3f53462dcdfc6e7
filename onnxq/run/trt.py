"""NVIDIA's ONNX parser and compiler (TensorRT-RTX), which needs no GPU to compile for one.

It runs in a child process (`onnxq.run.trt_child`): a native crash is a finding about the model,
not a crash of onnxq. Nothing here imports the compiler.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from onnxq.base import children, interrupts
from onnxq.base.errors import Fault, UserError
from onnxq.base.grouped import grouped
from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.formats import INT8
from onnxq.run.engine_log import EngineLayer, EngineTensor, of_first_profile, parse_layers, restore
from onnxq.run.profiles import Profile, as_profile

__all__ = [
    "Engine",
    "EngineLayer",
    "EngineTensor",
    "ParserError",
    "check_parse",
    "check_sm",
    "compile_engine",
    "compile_engines",
    "installed",
    "int8_of",
    "node_of",
    "plain",
]

_CHILD = children.command("onnxq.run.trt_child")
_SEVERE = ("WARNING", "ERROR", "INTERNAL_ERROR")
OLDEST = "1.7"
"""The oldest tensorrt-rtx that is asked: without a GPU, those before reject a convolution in int8."""


@dataclass(frozen=True, slots=True)
class ParserError(DocumentPart):
    """What NVIDIA's parser says against a node.

    Attributes:
        node: the name of the ONNX node; empty where it has none or the error is about the whole
            model.
        op: its operator.
        message: the parser's words: the check that failed, the kind of error, the description.
    """

    node: str
    op: str
    message: str

    def __str__(self) -> str:
        where = f"node {self.node!r} ({self.op}): " if self.node or self.op else ""
        return where + self.message


@dataclass(frozen=True, slots=True)
class Engine(DocumentPart):
    """What came of compiling a model.

    Attributes:
        status: "compiled", "failed", "not-installed", or "not-run" where it was only parsed.
        reason: why there is no engine, in the words of the parser or the compiler; empty where
            there is one.
        compiler: the compiler and its version, such as "tensorrt-rtx 1.7.1.116"; empty where not
            installed.
        sm: the compute capability compiled for, 89 for 8.9.
        layers: the layers of the engine in the order in which they run.
        unread: why the compiler's list of layers is not understood, where it is not: then there are none.
        plan_bytes: size of the engine.
        seconds: how long the build took, without parsing.
        errors: what the parser rejects.
        warnings: messages of severity warning and above, each once.
        profiles: (min, opt, max) shapes of each dynamic input, as compiled for; those asked for
            where it did not come to that. Of several optimization profiles, those of the first; `layers` are
            those of it, too.
        more: the shapes of further optimization profiles, likewise.
        activation_bytes: what the engine needs for activations, with each profile; empty where the compiler
            does not say.
    """

    status: Literal["compiled", "failed", "not-installed", "not-run"]
    reason: str
    compiler: str
    sm: int
    layers: tuple[EngineLayer, ...] = ()
    plan_bytes: int = 0
    seconds: float = 0.0
    errors: tuple[ParserError, ...] = ()
    warnings: tuple[str, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    unread: str = ""
    more: tuple[Mapping[str, Profile], ...] = ()
    activation_bytes: tuple[int, ...] = ()


def installed() -> str | None:
    """The compiler and its version, such as "tensorrt-rtx 1.7.1.116"; None where `missing` says why not."""
    version = _version()
    return None if version is None or _is_old(version) else f"tensorrt-rtx {version}".rstrip()


def missing() -> str:
    """Why no compiler is asked, and behind a `; ` what to do: it is not installed, or older than `OLDEST`."""
    version = _version()
    if version is not None and _is_old(version):
        return noted("compiler.old", version=version, oldest=OLDEST)
    return noted("compiler.missing")


def _version() -> str | None:
    """The version of the compiler, "" of a copy on the path that is no package; None where there is none."""
    if importlib.util.find_spec("tensorrt_rtx") is None:
        return None
    try:
        return importlib.metadata.version("tensorrt-rtx")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _is_old(version: str) -> bool:
    numbers, least = ([int(number) for number in text.split(".")[:2]] for text in (version or OLDEST, OLDEST))
    return numbers < least


@functools.cache
def check_sm(sm: int) -> None:
    """Asks the compiler, where it is installed, whether it compiles for a compute capability; 0.3 s.

    Raises:
        UserError: it does not; the hint says for which it does.
        Fault: the program that runs the compiler fails.
    """
    if installed() is not None:
        with interrupts.Folder() as folder:
            nothing = Path(folder) / "nothing"
            nothing.touch()
            _run_child({"task": "sm", "sm": sm}, [nothing], timeout=300.0)


def compile_engine(
    model: Path,
    *,
    sm: int = 89,
    profiles: Mapping[str, tuple[Sequence[int], Sequence[int], Sequence[int]]] | None = None,
    more: Sequence[Mapping[str, Profile]] = (),
    numbers: Mapping[str, Profile] | None = None,
    timeout: float = 900.0,
) -> Engine:
    """Compiles a model and reads the layers of the engine.

    Args:
        model: the ONNX file; external data is found beside it.
        sm: the compute capability of the GPU, 89 for 8.9.
        profiles: (min, opt, max) shapes by input; a dynamic input without one gets 1 for each
            dynamic dimension.
        more: further optimization profiles of the same engine.
        numbers: the smallest, usual and largest numbers in inputs that decide sizes, in each profile.
        timeout: seconds after which the compiler is stopped.

    Returns:
        The engine, or why there is none. A rejected model, a crash of the compiler and a timeout
        are results, not errors.

    Raises:
        UserError: the file does not exist, the compiler does not know `sm`, or a profile does not
            fit the model's inputs.
        Fault: the program that runs the compiler fails.
    """
    (engine,) = compile_engines(
        [model], sm=sm, profiles=profiles, more=more, numbers=numbers, timeout=timeout
    )
    return engine


def compile_engines(
    models: Sequence[Path],
    *,
    sm: int = 89,
    profiles: Mapping[str, tuple[Sequence[int], Sequence[int], Sequence[int]]] | None = None,
    more: Sequence[Mapping[str, Profile]] = (),
    numbers: Mapping[str, Profile] | None = None,
    timeout: float = 900.0,
) -> list[Engine]:
    """Compiles several models, one after another in one process, and reads the layers of their engines.

    A model with which the compiler crashes, or does not end, does not cost those before it; those behind it
    were not compiled.

    Args:
        models: the ONNX files.
        sm: as in `compile_engine`.
        profiles: the same for all of them.
        more: likewise.
        numbers: likewise.
        timeout: seconds for all of them.

    Raises:
        UserError: as `compile_engine`, of the first model; of the others it is why there is no engine.
        Fault: the program that runs the compiler fails.
    """
    compiler = installed()
    asked = [{name: as_profile(shapes) for name, shapes in one.items()} for one in (profiles or {}, *more)]
    if compiler is None:
        return [
            Engine("not-installed", missing(), "", sm, profiles=asked[0], more=tuple(asked[1:]))
            for _ in models
        ]
    request = {"task": "compile", "sm": sm, "profiles": asked, "numbers": dict(numbers or {})}
    children = _run_child(request, models, timeout)
    return [_engine(child, compiler, sm, asked) for child in children]


def _engine(child: _Child, compiler: str, sm: int, asked: Sequence[Mapping[str, Profile]]) -> Engine:
    """What a child says of a model."""
    built = child.result.get("plan_bytes") is not None
    layers: tuple[EngineLayer, ...] = ()
    unread = ""
    try:
        layers = of_first_profile(parse_layers(child.layers_message())) if built else ()
    except Fault as error:  # it compiles: that much is known
        unread = noted("compiler.unread-layers", compiler=compiler, oldest=OLDEST, error=error)
    first, *more = (
        {name: as_profile(shapes) for name, shapes in one.items()}
        for one in child.result.get("profiles", asked)
    )
    return Engine(
        status="compiled" if built else "failed",
        reason="" if built else child.reason(),
        compiler=compiler,
        sm=sm,
        layers=layers,
        plan_bytes=child.result.get("plan_bytes") or 0,
        seconds=child.result.get("seconds", 0.0),
        errors=child.errors(),
        warnings=tuple(child.messages(_SEVERE)),
        profiles=first,
        unread=unread,
        more=tuple(more),
        activation_bytes=child.activation_bytes() if built else (),
    )


def check_parse(model: Path, *, timeout: float = 300.0) -> list[ParserError] | None:
    """What NVIDIA's parser rejects in a model; None where it is not installed.

    The parser names every node whose operator it does not know; of the other nodes that it cannot
    take only the first. A parser that crashes or does not end is one error without a node.

    Args:
        model: the ONNX file; external data is found beside it.
        timeout: seconds after which the parser is stopped.

    Raises:
        UserError: the file does not exist.
    """
    if installed() is None:
        return None
    (child,) = _run_child({"task": "parse"}, [model], timeout)
    return [ParserError("", "", child.reason())] if child.ended else list(child.errors())


# `ITopKLayer top: ...`, `IConditionalOutputLayer choose_OutputLayer: ...`, `... failed. nms_0 has no runners`
_LAYER = re.compile(r"\bI\w+Layer (\S+?)(?:_OutputLayer)?: |(\S+?)_\d+ has no runners ")


def node_of(reason: str) -> str:
    """The name of the ONNX node (its first output's where it has none) that the compiler's words are about.

    Empty where they name no layer.
    """
    found = _LAYER.search(reason)
    return (found[1] or found[2]).removeprefix("node_of_") if found else ""


def plain(reason: str) -> str:
    """The compiler's words without the places in its sources."""
    text = re.sub(r"\s*\bIn \w+ at \S+:\d+", "", reason)
    text = re.sub(
        r"^IBuilder::\w+: Error Code \d+: [\w ]+ \((.*)\)$", r"\1", text, flags=re.MULTILINE | re.DOTALL
    )
    return re.sub(r"^(\[\S+\] |\w+\.cpp:\d+: )", "", text, flags=re.MULTILINE)


def int8_of(engine: Engine, nodes: Iterable[str], format: str = INT8.name) -> dict[str, EngineLayer | None]:
    """The layer that runs each ONNX node; its `multiplies` says whether in int8, or another format.

    A fused layer lists every node that it runs, so that a node is found under the name of another.
    A node that several layers run (an epilogue, an unrolled loop) is given the one that multiplies
    matrices, and of several such the first that is not of the format. A small product that runs as multiply
    and sum in a generated kernel has no such layer: then it is the first layer that lists the
    node.

    Args:
        engine: a compiled engine.
        nodes: names of ONNX nodes, `node_of_<first output>` for a node without a name.
        format: the name of what is multiplied.

    Returns:
        A layer for each name, or None where no layer lists it.
    """
    running = grouped((node, layer) for layer in engine.layers for node in layer.nodes)
    return {
        node: min(
            running.get(node, ()),
            key=lambda layer: (not layer.is_matrix, layer.multiplies(format)),
            default=None,
        )
        for node in nodes
    }


_PARSING = re.compile(r"Parsing node: (.*) \[(.*?)\]", re.DOTALL)

_ACTIVATIONS = re.compile(r"Total Activation Memory: (\d+) bytes")

# --- the child process ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Child:
    """What a child left: its result (empty where it did not end well), its log, how it ended."""

    result: dict[str, Any]
    log: list[tuple[str, str]]
    ended: str

    def errors(self) -> tuple[ParserError, ...]:
        found = [ParserError(*error) for error in self.result.get("errors", ())]
        return tuple(error if error.node or error.op else self._where(error) for error in found)

    def _where(self, error: ParserError) -> ParserError:
        """An error that names nothing, with the node that the parser had begun and not ended."""
        begun = None
        for severity, text in self.log if error.message.startswith("import") else ():
            if severity != "VERBOSE":
                continue
            if found := _PARSING.fullmatch(text):
                begun = found
            elif begun and text.startswith(f"{begun[1]} [{begun[2]}] outputs: "):
                begun = None
        return ParserError(begun[1].removeprefix("node_of_"), begun[2], error.message) if begun else error

    def messages(self, severities: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(text for severity, text in self.log if severity in severities))

    def reason(self) -> str:
        if self.ended:
            return "\n".join([self.ended, *(text[:300] for _, text in self.log[-5:])])
        lines = [str(error) for error in self.errors()] or self.messages(_SEVERE[1:])
        return "\n".join(lines) or noted("compiler.no-reason")

    def activation_bytes(self) -> tuple[int, ...]:
        """What the engine needs for activations with each profile, as far as the compiler says."""
        said = (_ACTIVATIONS.fullmatch(text) for severity, text in self.log if severity == "INFO")
        return tuple(int(one[1]) for one in said if one)

    def layers_message(self) -> str:
        blocks = [text for severity, text in self.log if severity == "VERBOSE"]
        for text in reversed(blocks):
            if text.startswith("Layers:\n"):
                return text
        raise Fault("the compiler's log has no list of layers", hint="nothing was counted as int8")


def _in_utf8(model: Path, folder: Path) -> Path:
    """A path of a model in UTF-8, as the compiler takes no other: where it has none, that of a link to it.

    `folder`: one that is not there, for links to what stands beside the model, its weights among it.
    """
    if _is_utf8(str(model)):
        return model
    folder.mkdir()
    for beside in model.parent.iterdir():
        if beside != model and _is_utf8(beside.name):
            (folder / beside.name).symlink_to(beside)
    link = folder / (model.name if _is_utf8(model.name) else f"{folder.name}.onnx")
    link.symlink_to(model)
    return link


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _run_child(request: dict[str, Any], models: Sequence[Path], timeout: float) -> list[_Child]:
    for model in models:
        if not model.is_file():
            raise UserError(f"{model}: no such file")
    with interrupts.Folder() as name:
        folder = Path(name)
        named = [
            _in_utf8(Path(os.path.abspath(model)), folder / f"{place}.links")
            for place, model in enumerate(models)
        ]
        request = request | {"models": [str(model) for model in named]}
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        with (folder / "stderr").open("wb") as stderr:
            process = None
            try:
                with interrupts.held_back():
                    process = subprocess.Popen(
                        [*_CHILD, name],
                        cwd=name,
                        env=children.environment(),
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=stderr,
                    )
                with interrupts.child(process):
                    code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:  # after an interrupt too
                if process is not None:
                    process.kill()
                    process.wait()
        ended = ""
        if code is None:
            ended = noted("compiler.late", seconds=timeout)
        elif code != 0:
            said = (folder / "stderr").read_text(encoding="utf-8", errors="replace")
            if "Traceback (most recent call last)" in said:
                raise Fault(f"the program that runs NVIDIA's compiler failed:\n{said[-2000:]}")
            ended = f"the compiler crashed ({_exit(code)})"
        return [_left(folder / str(place), ended, first=not place) for place in range(len(models))]


def _left(folder: Path, ended: str, *, first: bool) -> _Child:
    """What a child left of a model.

    Args:
        folder: where.
        ended: how the child ended where it did not end well.
        first: whether it is the one that was asked for; others only stand beside it.

    Raises:
        UserError: the first one's.
    """
    log = _read_log(folder / "log.jsonl")
    if not (folder / "result.json").exists():
        return _Child({}, log, ended)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    if "user_error" in result:
        message, hint = result["user_error"]
        if first:
            raise UserError(message, hint=hint)
        return _Child({}, log, message)
    if "unloadable" in result:
        return _Child({}, log, noted("compiler.not-loaded", error=result["unloadable"]))
    return _Child(result, log, "")


def _exit(code: int) -> str:
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"


def _read_log(path: Path) -> list[tuple[str, str]]:
    log = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            severity, text = json.loads(line)
        except ValueError:  # the line that was being written when the child died
            break
        # The list of layers is restored when it is parsed: names must not be mixed with its
        # grammar.
        log.append((severity, text if severity == "VERBOSE" else restore(text)))
    return log
