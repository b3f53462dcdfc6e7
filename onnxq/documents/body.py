"""What is not quantized: its type, and what stays float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxq.base.plain import DocumentPart


@dataclass(frozen=True, slots=True)
class StaysFloat32(DocumentPart):
    """A node that stays float32 in a half-precision body.

    Attributes:
        node: its name.
        op: its operator.
        because: why.
        code: a word for that, for programs.
    """

    node: str
    op: str
    because: str
    code: str


@dataclass(frozen=True, slots=True)
class CastMade(DocumentPart):
    """A Cast between float32 and half precision.

    Attributes:
        tensor: what it gives.
        to: of which type that is.
    """

    tensor: str
    to: str


@dataclass(frozen=True, slots=True)
class OutputOfBody(DocumentPart):
    """How near an output is, with int8 and half precision apart and together, dB.

    Attributes:
        output: its name.
        int8_db: with int8 in a float32 body; None where nothing is quantized, or nothing could be compared.
        body_db: with the body alone; None where that was not measured. It loses nothing of biases that repair
            has made such that it holds them.
        together_db: with both; None likewise.
    """

    output: str
    int8_db: float | None
    body_db: float | None
    together_db: float | None


@dataclass(frozen=True, slots=True)
class Int8Operators(DocumentPart):
    """The int8 layers that onnxruntime makes int8 operators of.

    Attributes:
        int8: how many it does.
        planned: how many there are.
    """

    int8: int
    planned: int


@dataclass(frozen=True, slots=True)
class BodyPart(DocumentPart):
    """What is not quantized. Without a half-precision body there is nothing from `half` on.

    Attributes:
        type: its type: "fp16", "bf16", "fp32" or "own", what the model has.
        because: why it is that.
        code: a word for that, for programs.
        scale_form: the form of weight scales: "per-channel", "post-scale" or "per-tensor".
        io: the type of inputs and outputs.
        post_scaled: the layers with one weight scale and its channels' ratios behind the product.
        per_channel: the layers that have a scale a channel although the form is another, and why.
        slices_apart: tensors that meet in a Concat under scales one step apart, and why.
        notes: what may not be expected.
        half: how many nodes compute in half precision.
        float32: the nodes that stay float32.
        casts: the casts that were put in.
        constants: how many constants are half precision.
        masks: names of what holds values of a mask beyond half precision.
        interface: the inputs and outputs whose type is another.
        outputs: how near each output is.
        onnxruntime: how many of the int8 layers onnxruntime makes int8 operators of; None where that is not
            known.
    """

    type: str
    because: str
    code: str
    scale_form: str
    io: str
    post_scaled: tuple[str, ...]
    per_channel: Mapping[str, str]
    slices_apart: Mapping[str, str]
    notes: tuple[str, ...]
    half: int | None = None
    float32: tuple[StaysFloat32, ...] = ()
    casts: tuple[CastMade, ...] = ()
    constants: int | None = None
    masks: tuple[str, ...] = ()
    interface: tuple[str, ...] = ()
    outputs: tuple[OutputOfBody, ...] = ()
    onnxruntime: Int8Operators | None = None
