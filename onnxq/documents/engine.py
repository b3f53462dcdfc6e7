"""What NVIDIA's compiler made of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnxq.base.plain import DocumentPart
from onnxq.run.engine_log import EngineLayer
from onnxq.run.trt import ParserError


@dataclass(frozen=True, slots=True)
class Regressed(DocumentPart):
    """Why a result does not compile although the original does.

    Attributes:
        reason: what the compiler says.
        by: what it is by: "quantization" or "repair".
        node: the node that it is by, "" where none is known.
    """

    reason: str
    by: str
    node: str


@dataclass(frozen=True, slots=True)
class EnginePart(DocumentPart):
    """What NVIDIA's compiler made of the result.

    Attributes:
        status: "compiled", "failed", "not-installed", or "not-run" where it was not asked.
        regressed: whether it does not compile although the original does.
        regression: why; None where that is not so.
        reason: why there is no engine, "" where there is one.
        unread: why the compiler's list of layers is not understood, "" where it is.
        compiler: the compiler and its version, "" where it is not installed.
        sm: the compute capability compiled for, 89 for 8.9; None where it was not run.
        planned: how many layers are meant to run in int8.
        int8: how many do.
        not_int8: names of those that do not.
        layers: the layers of the engine, in the order in which they run.
        profiles: the least, the usual and the greatest shape of each dynamic input, as compiled for.
        errors: what the parser rejects.
        seconds: how long the build took; None where it was not run.
    """

    status: Literal["compiled", "failed", "not-installed", "not-run"]
    regressed: bool
    regression: Regressed | None
    reason: str
    unread: str
    compiler: str
    sm: int | None
    planned: int
    int8: int
    not_int8: tuple[str, ...] = ()
    layers: tuple[EngineLayer, ...] = ()
    profiles: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    errors: tuple[ParserError, ...] = ()
    seconds: float | None = None
