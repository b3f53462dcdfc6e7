"""An engine as who serves it sees it: inputs, outputs, batch, profiles, the images that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from onnxq.base.escapes import in_one_line
from onnxq.data.understood import ImagesRead
from onnxq.graph.types import Shape, shape_of
from onnxq.run.profiles import Profile


@dataclass(frozen=True, slots=True)
class Binding:
    """An input or output of an engine.

    Attributes:
        name: its name.
        elem_type: its type, an entry of ONNX's enumeration.
        shape: its shape; None of an unknown rank.
    """

    name: str
    elem_type: int
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class Served:
    """An engine that is to be served.

    Attributes:
        model: the file that it is built of.
        inputs: its inputs.
        outputs: its outputs.
        profiles: smallest, usual and largest shape of each dynamic input, of each optimization profile.
        batch: the symbols of the batch.
        images: how images became inputs where the model was calibrated; none where no images did.
        build: the command that builds the engine.
    """

    model: Path
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    profiles: tuple[Mapping[str, Profile], ...]
    batch: frozenset[str]
    images: tuple[ImagesRead, ...]
    build: str

    @property
    def engine(self) -> str:
        """The name of the engine's file, as the command that builds it writes it."""
        return self.model.with_suffix(".engine").name

    @property
    def most_rows(self) -> int:
        """The greatest batch; 0 where not all inputs and outputs begin with a dynamic batch.

        Without a statement of which dimension that is, it is the symbol with which all of them begin.
        """
        first = {one.shape[0] if one.shape else None for one in (*self.inputs, *self.outputs)}
        if len(first) != 1:
            return 0
        (symbol,) = first
        if not isinstance(symbol, str) or (self.batch and symbol not in self.batch):
            return 0
        sizes = [shapes[2][0] for profile in self.profiles for shapes in profile.values() if shapes[2]]
        return max(sizes, default=0)

    def head(self, comment: str) -> list[str]:
        """What a file of it begins with: what it is for, and how the engine is built.

        Args:
            comment: what begins a comment.
        """
        return [
            f"{comment} Written by onnxq for {in_one_line(self.engine)}, which this builds:",
            f"{comment} {in_one_line(self.build)}",
        ]


def bindings(values: Sequence[onnx.ValueInfoProto]) -> tuple[Binding, ...]:
    """Inputs or outputs of a model, of those that are tensors."""
    return tuple(
        Binding(
            one.name,
            one.type.tensor_type.elem_type,
            shape_of(one.type.tensor_type.shape) if one.type.tensor_type.HasField("shape") else None,
        )
        for one in values
        if one.type.HasField("tensor_type")
    )
