"""Every option, once: its name, default, help, flag, key in `onnxq.toml` and kind, in groups.

The command line's flags and their panels (`cli/chosen.py`), the tables of `onnxq.toml` (`config.py`) and the
keywords of functions (`grouped.py`) are made of the groups; which verb has which, `verbs.py` says.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from onnxq.base import annotated
from onnxq.base.errors import UserError, unknown_name
from onnxq.options import option as kinds
from onnxq.options.exclusions import asked, settled
from onnxq.options.method import names, parameters
from onnxq.options.option import BYTES, CODE, FLAG, NOT, PATH, PATHS, TEXTS, option
from onnxq.options.parameters import MethodOptions
from onnxq.options.profile import Profile
from onnxq.options.step import steps
from onnxq.targets import DEFAULT, Target, device_table, is_known, known_as
from onnxq.targets import NAMES as TARGETS
from onnxq.targets.devices import ASSUMED, Device, device_of, is_name, named_as

LAYER_METHODS = names()
STEPS = tuple(steps())
METHODS = (*LAYER_METHODS, "auto")
PRESETS = ("imagenet", "yolo", "tensorflow", "raw")
LEVELS = ("always", "when-possible", "never")
BODIES = ("fp16", "bf16", "fp32")
SCALE_FORMS = ("per-channel", "post-scale", "per-tensor")
LOUD = ("int8", "float", "auto")
PAIRS = ("keep", "adopt", "drop")
NUMBER_FORMATS = ("int8", "fp8")
"""As `onnxq.formats.FORMATS`, which takes long to import."""

SERVERS = ("triton", "deepstream", "trtexec")

PathLike = str | os.PathLike[str]
Prove = Literal["always", "when-possible", "never"]
Color = Literal["rgb", "bgr", "gray"]
Size = tuple[int, int]
"""Width and height, pixels."""

Batch = tuple[int, int, int]
"""The smallest, the usual and the largest batch."""


class Group:
    """Options that belong together; each has a value of its kind.

    A group has a title, which is that of its panel in `--help`; examples for it, of which the first
    is shown whose flags a verb has; and the table of its options in `onnxq.toml`.

    Raises:
        UserError: a value is not of the kind that its option has, or makes no sense.
    """

    TITLE: ClassVar[str]
    TABLE: ClassVar[str]
    EXAMPLES: ClassVar[Sequence[str]]
    __slots__ = ()

    def __init_subclass__(cls, title: str = "", table: str = "", examples: Sequence[str] = ()) -> None:
        """What is said of a group; a dataclass with slots is made twice, and nothing is said again."""
        if title:
            cls.TITLE, cls.TABLE, cls.EXAMPLES = title, table, examples

    def __post_init__(self) -> None:
        own: Any = type(self)
        for name, said in kinds.read_options(own).items():
            annotated.check({name: getattr(self, name)}, annotated.hints_of(own), said.help)
        self._check()

    def _check(self) -> None:
        """Refuses values that make no sense."""


@dataclass(frozen=True, slots=True)
class Common(Group, title="Screen", examples=("-q --json",)):
    """What every verb takes."""

    quiet: bool = option(False, "No progress, no end screen.", FLAG, flag=("-q", "--quiet"))
    verbose: bool = option(
        False, "Show tracebacks of errors, and all that a run found.", FLAG, flag=("-v", "--verbose")
    )


@dataclass(frozen=True, slots=True)
class Repairs(
    Group,
    title="Graph",
    table="repair",
    examples=("--target tensorrt-8.6 --rules my_rules/", "--rules my_rules/", "--target tensorrt-8.6"),
):
    """How a model is repaired, and what for.

    Attributes:
        target: the TensorRT version, see `onnxq.targets.NAMES`; or the path of a table of your own.
        plugin: operators that plugins of the user's compute on the device, as `Op` or `domain.Op`.
        rules: folders of the user's own rules; their Python is run.
        enable: rules to turn on whatever the target lacks.
        skip: rules to leave out.
        accept: rules whose changes are made although the proof found values off; the report says by how much.
            What gives NaN, another type or another shape is refused all the same.
        prove: `always` keeps only changes that are proved. `when-possible` keeps and lists the others.
            `never` proves nothing.
        allow_interface_changes: whether rules may give inputs and outputs another type or shape.
        pairs: what to do with the Q/DQ pairs of a file, of `PAIRS`. `keep` what they compute, `adopt` their
            ranges in int8 around 0, or `drop` them and quantize the float net anew. None: `adopt` if int8
            around 0 holds the same numbers, else `keep`.

    Raises:
        UserError: there is no such proof level, or no such choice of pairs.
    """

    target: PathLike = option(
        DEFAULT, "Your version of TensorRT: 11, 10.13, 8.6, rtx. Or a table of your own, X.toml.",
        kinds.name_or_path("target", TARGETS, ".toml", known_as, is_known), metavar="NAME", tables=("",),
    )  # fmt: skip
    plugin: Sequence[str] = option(
        (), "An operator that a plugin of yours computes on the device.", TEXTS, metavar="OP", tables=("",)
    )
    rules: Sequence[PathLike] = option(
        (), "A folder of your own rules; their Python is run.", PATHS, metavar="DIR", runs_code=True
    )
    enable: Sequence[str] = option(
        (), "Turn a rule on for this target.", TEXTS, metavar="RULE", file_only=True
    )
    skip: Sequence[str] = option((), "Leave a rule out.", TEXTS, metavar="RULE", file_only=True)
    accept: Sequence[str] = option(
        (), "Make a rule's changes although values are off; how far is reported.", TEXTS, metavar="RULE",
        file_only=True,
    )  # fmt: skip
    prove: Prove = option(
        "when-possible",
        "always keeps only proved changes; when-possible keeps and lists the others; never proves nothing.",
        kinds.one_of("proof level", LEVELS), metavar="LEVEL",
    )  # fmt: skip
    allow_interface_changes: bool = option(
        False, "Let rules give inputs and outputs another type or shape.", FLAG
    )
    pairs: str | None = option(
        None, "Q/DQ pairs of the file: keep what they compute, adopt their ranges in int8, or drop them. "
        "Default: adopt if that is exact, else keep.",
        kinds.one_of("choice of pairs", PAIRS), metavar="WHAT",
    )  # fmt: skip

    def _check(self) -> None:
        for kind, value, known in (
            ("proof level", self.prove, LEVELS),
            ("choice of pairs", self.pairs, PAIRS),
        ):
            if value is not None and value not in known:
                raise unknown_name(kind, value, known)


@dataclass(frozen=True, slots=True)
class Runtime(Group, title="onnxruntime", table="runtime", examples=("--ort-ops libops.so",)):
    """What onnxruntime runs models with.

    Attributes:
        ort_ops: libraries of custom operators.
        ops: files of Python whose functions stand for operators, on arrays, and attributes as keywords.
        largest: bytes of the largest tensor that a run may make, or a text as `2GB` or `512MB`. None: 1 GB,
            and more for models and samples that are large themselves.

    Raises:
        UserError: `largest` is no size.
    """

    ort_ops: Sequence[PathLike] = option(
        (), "A library of custom operators for onnxruntime.", PATHS, metavar="LIB", runs_code=True
    )
    ops: Sequence[PathLike] = option(
        (),
        "A file of Python functions that stand for custom operators.",
        PATHS,
        metavar="X.py",
        runs_code=True,
    )
    largest: int | str | None = option(
        None, "The largest tensor that a run may make. Default: 1GB, more for large models and samples.",
        BYTES, metavar="SIZE", file_only=True,
    )  # fmt: skip

    def _check(self) -> None:
        _ = self.largest_bytes

    @property
    def largest_bytes(self) -> int | None:
        """The same as a number."""
        return None if self.largest is None else BYTES.of_flag("largest", str(self.largest))


@dataclass(frozen=True, slots=True)
class Inputs(
    Group,
    title="Inputs",
    table="inputs",
    examples=(
        "--shape x=1x3x224x224 --assume N=1",
        "--shape x=1x3x224x224",
        "--profile x=1x3x8x8:4x3x8x8:8x3x8x8",
    ),
):
    """What the user states about the model's inputs.

    Attributes:
        shapes: shapes of inputs, to give dynamic dimensions a size or a symbol.
        assume: sizes of dimension symbols; recorded in the report.
        freeze: values of inputs that become constants.
        profiles: the smallest, the usual and the largest shape of dynamic inputs. They decide what is in
            int8 and what is compiled. By default they are those of the samples, with a batch of 1.
            An input is `NAME/INPUT` for one of several deployments, which it names so.
        batch: the smallest, the usual and the largest batch; of several deployments, by their names ("": of
            all others).
        profile_weights: the share of each deployment in the work; by default equal.
    """

    shapes: Mapping[str, Sequence[int | str]] | None = option(
        None, "Shape of an input: sizes, or symbols for dynamic dimensions.",
        kinds.by_name("INPUT=1x3x224x224, each a size or a symbol", kinds.shape),
        flag=("--shape",), metavar="INPUT=1x3x224x224",
    )  # fmt: skip
    assume: Mapping[str, int] | None = option(
        None, "State the size of a dynamic dimension.", kinds.by_name("DIM=SIZE, as in N=1", kinds.size),
        metavar="DIM=1",
    )  # fmt: skip
    freeze: Mapping[str, Any] | None = option(
        None, "Make an input a constant: numbers or true/false.",
        kinds.by_name("INPUT=VALUE[,VALUE...], numbers or true/false", kinds.values), metavar="INPUT=VALUE",
    )  # fmt: skip
    profiles: Mapping[str, Profile] | None = option(
        None, "Smallest, usual and largest shape of a dynamic input: 1x3x8x8:4x3x8x8:8x3x8x8. "
        "NAME/INPUT names one of several deployments.",
        kinds.by_name("INPUT=MIN:OPT:MAX, as in x=1x3x8x8:4x3x8x8:8x3x8x8", kinds.profile, ":"),
        flag=("--profile",), metavar="INPUT=MIN:OPT:MAX", tables=("inputs", "engine"),
    )  # fmt: skip
    batch: Batch | Mapping[str, Batch] | None = option(
        None, "Smallest, usual and largest batch, as in 1:8:32; usually 1 by default.",
        kinds.parsed("MIN:OPT:MAX, as in 1:8:32, or one size", kinds.span, ":"), metavar="MIN:OPT:MAX",
    )  # fmt: skip
    profile_weights: Mapping[str, float] | None = option(
        None, "A deployment's share of the work; equal by default.",
        kinds.by_name("NAME=W, a number above 0, as in decode=0.9", kinds.above_zero),
        flag=("--profile-weight",), metavar="NAME=W", file_only=True,
    )  # fmt: skip


DEPLOYED = ("profiles", "batch", "profile_weights")
"""The options of `Inputs` for what decides nothing by sizes, and compiles nothing."""


@dataclass(frozen=True, slots=True)
class DataPlace(
    Group,
    title="Data",
    table="calibration",
    examples=("--calib images/ --skip-bad", "--data images/ --skip-bad", "--calib images/"),
):
    """Where the data are, and how they are read.

    Attributes:
        path: a folder, a file or a glob; or else
        script: Polygraphy's convention; it is run. The flag of the path takes it too.
    """

    path: Path | None = option(
        None, "A folder, file, glob or list of images, arrays or tables; a video. Or X.py[:FUNC], which is "
        "run: its load_data (or FUNC) yields {input: array}.", PATH,
        flag=("--calib",), metavar="PATH", key="data",
    )  # fmt: skip
    script: str | None = option(
        None, "Instead of a path: a script whose load_data (or FUNC) yields {input: array}; it is run.",
        CODE, flag=("--data-loader-script",), metavar="X.py[:FUNC]", runs_code=True, beside="path",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Feeding(Group, title=DataPlace.TITLE, table=DataPlace.TABLE):
    """How samples become inputs, whatever they are.

    Attributes:
        skip_bad: leave out samples that are bad; they are counted in the report.
        input_names: `{input: name}`, what the data call inputs of the model that have another name there.
    """

    skip_bad: bool = option(False, "Leave out bad samples. The report counts them.", FLAG)
    input_names: Mapping[str, str] | None = option(
        None, "The name of an input in your data, if it differs.",
        kinds.by_name("INPUT=NAME, the model's input and its name in the data", kinds.some),
        flag=("--input-name",), metavar="INPUT=NAME",
    )  # fmt: skip


LARGEST = 32768
"""Pixels that a side may have: more are a mistake, and would take all memory."""

_GREATEST, _LEAST = 3.4028234663852886e38, 1.1754943508222875e-38  # of the normal float32

CHANNELS: dict[str, int] = {"rgb": 3, "bgr": 3, "gray": 1}


@dataclass(frozen=True, slots=True)
class ImageOptions(Group, title="Images", table="images", examples=("--preset imagenet",)):
    """How image files become input values.

    An image is turned as its EXIF orientation says, made RGB, BGR or gray, resized and cropped. Then each of
    its values, 0 to 255, becomes `(value * scale - mean) / std`.

    Attributes:
        preset: a name of `PRESETS`, see `onnxq.data.image_options`.
        mean: for all channels, or one for each in the input's order; subtracted after scaling.
        std: as `mean`; each channel is divided by it.
        scale: None: 1/255 for a float input, 1 for an integer.
        color: order of the channels; None: RGB for three, gray for one.
        resize: width and height; or an int: the length of the shorter side, the other follows.
        crop: width and height of the center that is kept, after resizing.
        letterbox: keep the aspect ratio inside `resize` (None: the input's size), in the middle of
            gray 114.

    Without size options, an image is stretched to the input's size, and keeps its own where the
    input's is dynamic.

    Raises:
        UserError: a value makes no sense, or two exclude each other.
    """

    scale: float | None = option(
        None, "Multiply pixels (0 to 255) by it; 1/255 for a float input.",
        kinds.parsed("F, a number or a fraction, as in 1/255", kinds.fraction), metavar="F",
    )  # fmt: skip
    mean: tuple[float, ...] | None = option(
        None, "Subtract it from each channel, after --scale.",
        kinds.parsed("M or M,M,M: numbers or fractions, as in 0.485,0.456,0.406", kinds.fractions),
        metavar="M[,M,M]",
    )  # fmt: skip
    std: tuple[float, ...] | None = option(
        None, "Divide each channel by it, after --mean.",
        kinds.parsed("S or S,S,S: numbers or fractions, as in 0.229,0.224,0.225", kinds.fractions),
        metavar="S[,S,S]",
    )  # fmt: skip
    color: Color | None = option(
        None, "Order of the channels: rgb, bgr or gray.", kinds.one_of("color order", tuple(CHANNELS)),
        metavar="ORDER",
    )  # fmt: skip
    resize: int | Size | None = option(
        None, "Resize to this size, or to this shorter side.",
        kinds.parsed("WIDTHxHEIGHT, as in 640x480, or the shorter side, as in 256", kinds.side_or_size, "x"),
        metavar="WxH|SIDE", file_only=True,
    )  # fmt: skip
    crop: Size | None = option(
        None, "Cut out the center, after resizing.",
        kinds.parsed("WIDTHxHEIGHT, as in 224x224", kinds.width_height, "x"), metavar="WxH",
        file_only=True,
    )  # fmt: skip
    letterbox: bool | None = option(
        None, "Keep the aspect ratio, pad with gray 114 (YOLO).", FLAG, file_only=True
    )
    preset: str | None = option(
        None, "How the model was trained: imagenet, yolo, tensorflow or raw.",
        kinds.one_of("preset", PRESETS), metavar="NAME",
        tables=("images", "calibration"),
    )  # fmt: skip

    def _check(self) -> None:
        if self.preset is not None and self.preset not in PRESETS:
            raise unknown_name("preset", str(self.preset), PRESETS)
        if self.color is not None and self.color not in CHANNELS:
            raise unknown_name("color order", str(self.color), CHANNELS)
        if self.scale is not None:
            _check_numbers("scale", (self.scale,), self.scale)
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None:
                _check_numbers(name, values or None, values)
        if not (self.resize is None or is_side(self.resize) or _is_size(self.resize)):
            raise UserError(f"resize is {self.resize!r}", hint="give (width, height) or the shorter side")
        if not (self.crop is None or _is_size(self.crop)):
            raise UserError(f"crop is {self.crop!r}", hint="give (width, height) in pixels")
        for name, sides in (("resize", self.resize), ("crop", self.crop)):
            largest = max(sides) if isinstance(sides, tuple) else sides or 0
            if largest > LARGEST:
                raise UserError(
                    f"{name} to {largest} pixels: a side has {LARGEST} at most",
                    hint="give the size that the model takes",
                )
        if self.letterbox and (self.crop is not None or is_side(self.resize)):
            raise UserError(
                "letterbox keeps all of an image inside a width and a height: it goes with neither "
                "crop nor the resize of a shorter side",
                hint="leave one of them out",
            )

    def given(self) -> list[str]:
        """The names of those that are not None."""
        return [field.name for field in dataclasses.fields(self) if getattr(self, field.name) is not None]


def _check_numbers(name: str, values: Any, given: Any) -> None:
    numbers = isinstance(values, tuple) and all(isinstance(v, int | float) for v in values)
    if not numbers or not all(abs(v) <= _GREATEST for v in values):
        raise UserError(
            f"{name} is {given!r}, not finite numbers in float32",
            hint="give what the model was trained with, one number for all channels or one each",
        )
    if name != "mean" and any(abs(v) < _LEAST for v in values):
        raise UserError(f"{name} is 0 in float32: {given!r}", hint="give what the model was trained with")
    if name == "std" and min(values) < 0:
        raise UserError(f"std is negative: {given!r}", hint="give what the model was trained with")


def is_side(value: Any) -> bool:
    """Whether a resize is that of a shorter side."""
    return type(value) is int and value > 0


def _is_size(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(is_side, value))


@dataclass(frozen=True, slots=True)
class Calibration(
    MethodOptions,
    Group,
    title="Calibration",
    table="calibration",
    examples=("--method percentile --samples 256", "--samples 256", "--stats model.stats.npz"),
):
    """How a model is calibrated.

    Attributes:
        method: how ranges are chosen, see `onnxq/methods/`; without it a parameter says which. `auto` takes
            the method whose outputs are nearest to the float model's, on samples that calibration did not
            see. Then it tries other thresholds for the tensors that quantization hurts most.
        percentile: of method `percentile`; parameters of methods are fields, see `onnxq.options.parameters`.
        constant: of the moving average.
        search: choose the percentile by the outputs, as `auto` chooses the method.
        exact: make histograms of all values instead of some millions of each tensor.
        samples: how many samples calibrate at most.
        seed: chooses them where there are more.
        stats: what `onnxq.calibrate` wrote, or a TensorRT calibration cache.
        partial: take statistics that lack samples, those of some shards; else they are refused.

    Raises:
        UserError: a value makes no sense, or a parameter is of another method.
    """

    search: bool = option(False, "Choose the percentile by the model's outputs.", FLAG, beside="method")
    exact: bool = option(
        False, "Count all values of a tensor in histograms, not some millions.", FLAG, file_only=True
    )
    samples: int = option(512, "Number of samples that calibrate, at most.", kinds.at_least(1), metavar="N")
    seed: int = option(
        0, "Seed of the random choice of samples.", kinds.at_least(0), metavar="N", file_only=True
    )
    stats: PathLike | None = option(
        None, "Statistics of `onnxq calibrate`, or a TensorRT calibration cache.", PATH, metavar="FILE"
    )
    partial: bool = option(
        False, "Accept --stats that lack the samples of some shards.", FLAG, file_only=True
    )

    def _check(self) -> None:
        if self.method not in METHODS:
            raise unknown_name("method", self.method, ("auto", *LAYER_METHODS))
        said = {name: getattr(self, name) for name in ("method", "search", *parameters())}
        object.__setattr__(self, "method", settled(asked(said), said, str)["method"])
        if self.samples < 1:
            raise UserError(f"{self.samples} calibration samples are too few", hint="give at least 1")
        if self.seed < 0:
            raise UserError(f"the seed is {self.seed}", hint="give 0 or more")
        if self.partial and self.stats is None:
            raise UserError("partial needs statistics, and none are given", hint="give --stats FILE")


@dataclass(frozen=True, slots=True)
class Division(
    Group, title="Parts", table="calibration", examples=("--workers 4 --shard 1/8", "--workers 4")
):
    """How statistics are taken in parts.

    Attributes:
        shard: `(i, n)`: take every n-th sample only, from the i-th on (from 1); the statistics of all shards
            are merged with `onnxq.merge_stats`.
        workers: how many processes; more than one needs data that is a path.
    """

    shard: tuple[int, int] = option(
        (1, 1), "Take every N-th sample only, from the I-th on (from 1).",
        kinds.parsed("I/N, as in 1/4", kinds.part), metavar="I/N",
    )  # fmt: skip
    workers: int = option(1, "Number of processes.", kinds.at_least(1), metavar="N")


NO_HALF = "keep_fp32 names what stays float32 in a body of half precision, and there is none"


@dataclass(frozen=True, slots=True)
class Format(
    Group,
    title="Layers",
    table="format",
    examples=("--keep-float '/head/*' --keep-float Softmax", "--body fp16"),
):
    """What is quantized, and what is written.

    Attributes:
        number_format: what layers are quantized to, of `onnxq.formats.FORMATS`; several, in a list or with
            commas: each layer to one of them. None: what the model's own pairs are, else the target's first.
        keep_float: names of nodes to keep in float, as globs. What is no node's name is an operator.
        keep_float_op: operators to keep in float.
        keep_fp32: names of nodes to keep in float32 where the body is of half precision, as globs. They are
            not quantized either. Of an If, a Loop or a Scan what is in its bodies is kept too.
        loud: the type of loud layers, which make much of the outputs' noise, of `LOUD`. `auto` leaves them in
            float if that gains 1 dB and its price, measured on other samples than those that chose them.
            None: the same if an output is poor, for less than 1 % of the int8 work, or up to 5 % if one is
            bad. But a plan or a goal that says what is in float wins. `float`: all heads are, the last layers
            (`onnxq.quant.heads`).
        body: the type of what is not quantized, of `BODIES`. None: `fp16` for a float32 model, if the target
            runs the types that the file states. Else the types of the model.
        io: that of float32 inputs and outputs: `body`'s, or None: they stay float32.
        scale_form: the form of the weights' scales, of `SCALE_FORMS`; None: what is best for the target.
        cache: also write a calibration cache, for TensorRT's implicit quantization.
        plan: a plan file to obey, see `onnxq.plan`; data are needed for ranges that it does not state, and
            to verify.

    Raises:
        UserError: there is no such type, form or choice of loud layers. Or `io` is another type than `body`.
            Or `loud` does not go with the plan.
    """

    number_format: str | Sequence[str] | None = option(
        None, "Number format: int8, fp8 (E4M3, from compute capability 8.9 on), or int8,fp8 by layer.",
        kinds.some_of("number format", NUMBER_FORMATS, ()), metavar="FORMAT", flag=("--format",),
    )  # fmt: skip
    keep_float: Sequence[str] = option(
        (), "Names of nodes to keep in float; or an operator, where no node has that name.", TEXTS,
        metavar="GLOB",
    )  # fmt: skip
    keep_float_op: Sequence[str] = option(
        (), "Operators to keep in float.", TEXTS, metavar="TYPE", file_only=True
    )
    keep_fp32: Sequence[str] = option(
        (), "Names of nodes, or an operator, to keep in float32 in a half body.", TEXTS, metavar="GLOB"
    )
    loud: str | None = option(
        None,
        "Layers that make most of the error: int8, auto (float if that gains 1 dB), or float (the last "
        "layers). Default: auto, for 1 % of the int8 work.",
        kinds.one_of("choice of loud layers", LOUD), metavar="TYPE", file_only=True,
    )  # fmt: skip
    body: str | None = option(
        None,
        "Type of what is not quantized: fp16, bf16 or fp32.",
        kinds.one_of("body", BODIES),
        metavar="TYPE",
    )
    io: str | None = option(
        None, "Type of float inputs and outputs: fp32, or that of the body.", kinds.one_of("io", BODIES),
        metavar="TYPE", file_only=True,
    )  # fmt: skip
    scale_form: str | None = option(
        None, "Form of weight scales: per-channel, post-scale or per-tensor.",
        kinds.one_of("scale form", SCALE_FORMS), metavar="FORM", file_only=True,
    )  # fmt: skip
    cache: bool = option(
        False, "Also write X.cache, for TensorRT's implicit quantization.", FLAG, file_only=True
    )
    plan: PathLike | None = option(None, "A plan file of `onnxq plan` to follow.", PATH, metavar="X.toml")

    @property
    def formats(self) -> tuple[str, ...]:
        """The number formats that are asked for, in the order of `NUMBER_FORMATS`; none where none is."""
        return tuple(name for name in NUMBER_FORMATS if name in self._named)

    @property
    def _named(self) -> tuple[str, ...]:
        said = self.number_format or ()
        return tuple(part.strip() for part in said.split(",")) if isinstance(said, str) else tuple(said)

    def loud_where(self, settled: bool) -> str:
        """What is asked of loud layers, else `default`; `settled`: something else says what is in float."""
        return self.loud or ("int8" if settled else "default")

    def _check(self) -> None:
        for kind, value, known in (
            ("body", self.body, BODIES),
            ("io", self.io, BODIES),
            ("scale form", self.scale_form, SCALE_FORMS),
            ("choice of loud layers", self.loud, LOUD),
        ):
            if value is not None and value not in known:
                raise unknown_name(kind, value, known)
        if self.number_format is not None:
            kinds.check_some("number format", self._named, NUMBER_FORMATS, ())
        if self.loud not in (None, "int8") and self.plan is not None:
            raise UserError(
                f"the plan says which layers are in float, so loud = {self.loud} does not go with it",
                hint="leave loud out, or write the plan anew with it: onnxq plan",
            )
        if self.keep_fp32 and self.body == "fp32":
            raise UserError(NO_HALF, hint="give --body fp16, or leave keep_fp32 out")
        if self.io not in (None, "fp32") and self.body not in (None, self.io):
            raise UserError(
                f"inputs and outputs in {self.io} do not go with a body in {self.body}",
                hint="give one type for both, or leave io out: inputs and outputs stay float32",
            )


@dataclass(frozen=True, slots=True)
class AccuracyRepair(Group, title="Repair", table="repair", examples=("--repair bias,shift,gptq",)):
    """How the accuracy that int8 costs is won back.

    Attributes:
        repair: `auto`: all steps, on so few samples that they cost no more than all before them; `none`; or
            names of steps (`onnxq/repair/steps/`), which are tried in their order. None: `auto`, and
            `none` where a plan is obeyed.
        repair_samples: how many of the samples that calibrated fit them, at most.

    Raises:
        UserError: there is no such step, or a value makes no sense.
    """

    repair: str | Sequence[str] | None = option(
        None, f"Steps that recover accuracy: auto (the default without a plan), none or some of "
        f"{', '.join(STEPS)}.",
        kinds.some_of("repair step", STEPS, ("auto", "none")), metavar="STEP[,STEP]", key="steps",
    )  # fmt: skip
    repair_samples: int = option(
        64, "Number of samples that the steps use, at most.", kinds.at_least(1), metavar="N", key="samples",
        file_only=True,
    )  # fmt: skip

    def _check(self) -> None:
        if self.repair is not None:
            kinds.check_some("repair step", self.repair, STEPS, ("auto", "none"))
        if self.repair_samples < 1:
            raise UserError(f"{self.repair_samples} samples are too few to fit with", hint="give at least 1")

    @property
    def is_auto(self) -> bool:
        """Whether the steps are ours to choose."""
        return self.repair in (None, "auto")

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps, in their order."""
        if self.repair == "none":
            return ()
        named = (self.repair,) if isinstance(self.repair, str) else self.repair or ()
        return tuple(step for step in STEPS if self.is_auto or step in named)


@dataclass(frozen=True, slots=True)
class Compilation(Group, title="Engine", table="engine", examples=("--device l4",)):
    """How the result is compiled, and what for.

    Attributes:
        device: the GPU that the engine runs on, see `onnxq.targets.devices`: its name, a compute capability
            (87 for 8.7) or the path of a file of your own; None: not stated, 8.9 is compiled for.
        compile: whether to compile where NVIDIA's compiler is installed. Where the result does not compile
            and the original does, `report.engine.regressed` is true, and `regression` says why.
        dla: whether it is to run on the deep learning accelerator of a Jetson.
    """

    device: str | int | Path | None = option(
        None, "Your GPU: orin-nx, l4; or a compute capability, 87 for 8.7. Or one of your own, X.toml.",
        kinds.name_or_path("device", [*device_table()["device"]], ".toml", named_as, is_name), metavar="NAME",
    )  # fmt: skip
    compile: bool = option(True, "Do not compile.", NOT, flag=("--no-engine",))
    dla: bool = option(False, "Say what its deep learning accelerator (DLA) leaves to the GPU.", FLAG)

    @property
    def stated(self) -> Device | None:
        """The device; None where none is stated."""
        return None if self.device is None else device_of(self.device)

    def sm(self, target: Target) -> int:
        """The compute capability that is compiled for: the nearest to the device's that the compiler has."""
        return ASSUMED if self.stated is None else self.stated.compiled_as(target)

    def _check(self) -> None:
        _ = self.stated


@dataclass(frozen=True, slots=True)
class Outcome(Group, title=Compilation.TITLE, table="engine"):
    """What a run is asked for.

    Attributes:
        strict: whether the exit code is 1 with any answer but "ship it".
        exit_zero: whether it is 0 with any answer; a goal that is missed still ends with 1.

    Raises:
        UserError: both are asked for.
    """

    strict: bool = option(False, 'Exit with 1 unless the answer is "ship it".', FLAG)
    exit_zero: bool = option(
        False, "Exit with 0 whatever the answer is, unless a goal is missed.", FLAG, file_only=True
    )

    def _check(self) -> None:
        if self.strict and self.exit_zero:
            raise UserError("strict and exit_zero ask for opposite exit codes", hint="leave one of them out")

    def exit_code(self, answer: str, *, missed: bool = False) -> int:
        """What a command ends with.

        Args:
            answer: "ship", "do-not-ship" or "not-known".
            missed: whether a goal is missed.
        """
        stops = answer == "do-not-ship" or (self.strict and answer != "ship")
        return int(missed or (stops and not self.exit_zero))


@dataclass(frozen=True, slots=True)
class Papers(Group, title="Report", table="report", examples=("--deploy triton",)):
    """What is written beside the model and its report.

    Attributes:
        page: whether `X.report.html`, the report as a page, is written.
        deploy: for whom a file is written, of `SERVERS`; several, in a list or with commas. None: for nobody.

    Raises:
        UserError: there is no such server.
    """

    page: bool = option(
        True, "Do not write the report as a page, X.report.html.", NOT, flag=("--no-page",), file_only=True
    )
    deploy: str | Sequence[str] | None = option(
        None, f"Also write what serves the engine: some of {', '.join(SERVERS)}.",
        kinds.some_of("server", SERVERS, ()), metavar="SERVER[,SERVER]",
    )  # fmt: skip

    @property
    def servers(self) -> tuple[str, ...]:
        """For whom a file is written, in the order of `SERVERS`."""
        said = self.deploy or ()
        named = said.split(",") if isinstance(said, str) else said
        return tuple(name for name in SERVERS if name in map(str.strip, named))

    def _check(self) -> None:
        if self.deploy is not None:
            said = self.deploy.split(",") if isinstance(self.deploy, str) else self.deploy
            kinds.check_some("server", tuple(map(str.strip, said)), SERVERS, ())


@dataclass(frozen=True, slots=True)
class Details(Group, title=Papers.TITLE, table=Papers.TABLE):
    """What a report has for those who look closely.

    Attributes:
        layer_samples: on how many of the samples that verify the error of each layer is measured, alone and
            accumulated; 0: on none. None: 4, and fewer or none where they would take more than 15 % of the
            run, by the clock or of the processors, or the model is large.
        pictures: whether the report keeps small pictures. Of samples that look like images it keeps some, as
            the model is fed them, 40 kB at most. Of outputs that are pictures it keeps the worst, beside the
            float model's, 240 kB at most.

    Raises:
        UserError: a value makes no sense.
    """

    layer_samples: int | None = option(
        None, "Number of samples that measure the error of each layer; 4 if they are cheap.",
        kinds.at_least(0), metavar="N", file_only=True,
    )  # fmt: skip
    pictures: bool = option(
        True, "Keep no pictures of samples and outputs in the report.", NOT, flag=("--no-pictures",),
        file_only=True,
    )  # fmt: skip

    def _check(self) -> None:
        if self.layer_samples is not None and self.layer_samples < 0:
            raise UserError(f"the number of layer samples is {self.layer_samples}", hint="give 0 or more")


CallableModel = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A model that a function of the user's calls: arrays by input name in, arrays by output name out."""

UNITS = ("macs", "bytes")


@dataclass(frozen=True, slots=True)
class Goal(
    Group,
    title="Goal",
    table="goal",
    examples=(
        "--min-sqnr 30 --max-float 5%",
        "--min-sqnr 30 --min-agreement logits=99",
        "--task detect:yolov8 --min-agreement 99",
        "--eval score.py:top1",
    ),
):
    """How near the outputs have to be to the float model's, and what layers in float cost.

    Attributes:
        min_sqnr: the least SQNR about the mean of all outputs together, dB.
        min_agreement: the least percentage of the float model's answers that is kept, as the task counts
            them. With the name of an output: the least percentage of its rows in which the argmax is the
            float model's.
        task: what the model is for and how outputs are read (docs/tasks.md); None: as the graph says.
        labels: what is right for the samples, by the names of their files (docs/tasks.md): the float model's
            and int8's accuracy by it are told; they decide nothing.
        ship_from: percent of the float model's answers from which on a result is shipped: what other samples
            keep at least, the lower end of the 95 % interval. None: 80. It is no goal.
        max_drop: by how much the score of `eval` may be below the float model's, in its units.
        eval: a function that is called with a model, `{input: array}` to `{output: array}`. It returns one
            number a sample, whose mean is the score, or the score itself. Higher is better. Or
            `FILE.py:FUNCTION`, whose Python is run. One with a second parameter is given "choose" or
            "verify", and is to use other samples for each: the latter decide nothing.
        max_float: which share of the int8 multiply-accumulates may go to float, 0 to 1.
        costs: what a layer in float costs: `macs`, `bytes`, numbers by node, or a JSON file of such.
        weigh: what outputs weigh, 1 by default.
        measure: how many samples measure what each layer adds, and choose, at most.
        time_limit: seconds, from the beginning of the run, after which each search ends with its best so far:
            scales, repair, loud layers, the goal, a faster engine. None: no limit. These always run to their
            end: calibrating, verifying, compiling once. With a limit that is reached the result depends on
            how fast the machine is.

    Raises:
        UserError: a value makes no sense, or `max_drop` is given without `eval`.
    """

    min_sqnr: float | None = option(
        None, "Goal: least SQNR about the mean of all outputs together.",
        kinds.once(kinds.parsed("DB, as in 30", kinds.real)), metavar="DB",
    )  # fmt: skip
    min_agreement: float | tuple[str, float] | None = option(
        None, "Goal: least percentage of the float model's answers that is kept; see --task.",
        kinds.once(kinds.parsed("PERCENT or OUTPUT=PERCENT, as in 99 or logits=99", kinds.percent_of_output)),
        metavar="[OUTPUT=]PERCENT",
    )  # fmt: skip
    task: str | None = option(
        None, "What the model is for, and how its outputs are read: onnxq help layout.",
        kinds.once(kinds.TEXT), metavar="TASK[:LAYOUT]",
    )  # fmt: skip
    labels: PathLike | None = option(
        None, "Ground truth: class folders or a list, COCO's JSON, YOLO's texts, masks.", kinds.PATH,
        metavar="PATH",
    )  # fmt: skip
    ship_from: float | None = option(
        None, 'Least percentage of the answers for "ship it": the lower end of the interval. 80 by default.',
        kinds.parsed("PERCENT, as in 80", kinds.real), metavar="PERCENT", file_only=True,
    )  # fmt: skip
    max_drop: float | None = option(
        None, "Goal: the score of --eval falls by at most this much.",
        kinds.once(kinds.parsed("X, as in 0.5", kinds.not_negative)), metavar="X",
    )  # fmt: skip
    eval: PathLike | Callable[..., Any] | None = option(
        None, "Your function that scores a model, higher is better. onnxq runs it: onnxq help score.",
        CODE,
        metavar="X.py:FUNC", runs_code=True,
    )  # fmt: skip
    max_float: float | None = option(
        None, "Largest share of the int8 multiply-accumulates that may go to float.",
        kinds.once(kinds.parsed("SHARE, as in 5% or 0.05", kinds.share)), metavar="SHARE",
    )  # fmt: skip
    costs: str | PathLike | Mapping[str, float] = option(
        "macs", "What a layer in float costs: macs, bytes or a JSON file {node: cost}.",
        kinds.name_or_path("unit", UNITS, ""), metavar="FILE.json", file_only=True,
    )  # fmt: skip
    weigh: Mapping[str, float] | None = option(
        None, "Weight of an output, 1 by default.",
        kinds.by_name("OUTPUT=WEIGHT, as in logits=2", kinds.not_negative), metavar="OUTPUT=W",
        file_only=True,
    )  # fmt: skip
    measure: int = option(
        64, "Number of samples that measure the error of each layer, at most.", kinds.at_least(1),
        metavar="N", file_only=True,
    )  # fmt: skip
    time_limit: float | None = option(
        None, "Seconds from the start of the run after which searches end with the best so far.",
        kinds.once(kinds.parsed("SECONDS, as in 600", kinds.not_negative)), metavar="SECONDS",
        file_only=True,
    )  # fmt: skip

    def _check(self) -> None:
        if self.min_sqnr is not None:
            _check_goal("least SQNR", self.min_sqnr, -math.inf, math.inf, "dB, as in 30")
        if self.min_agreement is not None:
            given = self.min_agreement
            percent = given[1] if isinstance(given, tuple) and len(given) == 2 else given
            _check_goal("least agreement", percent, 0, 100, "percent, as in 99")
        if self.ship_from is not None:
            _check_goal("least percentage that is shipped", self.ship_from, 0, 100, "percent, as in 80")
        if self.max_drop is not None:
            _check_goal("greatest drop", self.max_drop, 0, math.inf, "in the units of the score, as in 0.5")
        if self.max_float is not None:
            _check_goal("greatest share in float", self.max_float, 0, 1, "as in 0.05")
        if self.time_limit is not None:
            _check_goal("time limit", self.time_limit, 0, math.inf, "in seconds, as in 600")
        if self.max_drop is not None and self.eval is None:
            raise UserError(
                "--max-drop needs a score, and no score is given",
                hint="give --eval FILE.py:FUNCTION",
            )
        if self.measure < 1:
            raise UserError(f"{self.measure} samples are too few to measure with", hint="give at least 1")

    @property
    def is_set(self) -> bool:
        """Whether there is one."""
        return any(value is not None for value in (self.min_sqnr, self.min_agreement, self.max_drop))


@dataclass(frozen=True, slots=True)
class Ranking(Group, title=Goal.TITLE, table=Goal.TABLE):
    """How much of a ranking is confirmed.

    Attributes:
        top: how many decisions are measured, the first ones.
    """

    top: int = option(
        5, "Number of decisions that are measured, the first ones.", kinds.at_least(0), metavar="N",
        file_only=True,
    )  # fmt: skip

    def _check(self) -> None:
        if self.top < 0:
            raise UserError(f"the number of decisions to measure is {self.top}", hint="give 0 or more")


def _check_goal(what: str, value: Any, least: float, most: float, form: str) -> None:
    fits = isinstance(value, int | float) and math.isfinite(value) and least <= value <= most
    if not fits or isinstance(value, bool):
        raise UserError(f"the {what} is {value!r}", hint=f"give it {form}")


@dataclass(frozen=True, slots=True)
class Look(Group, title=DataPlace.TITLE, table="data"):
    """How much `onnxq data` looks at.

    Attributes:
        samples: how many samples are read.
    """

    samples: int = option(64, "Number of samples that are read.", kinds.at_least(1), metavar="N")


@dataclass(frozen=True, slots=True)
class Margins(Group, title="Margins", table="diff", examples=()):
    """By how much a run may be worse than another before that is said.

    Attributes:
        margin_db: of what is measured in dB.
        margin_points: of shares, in hundredths: agreement, int8 share of the work.
        margin_percent: of sizes, of what kernels move and of scores, in percent of run A's.

    Raises:
        UserError: a margin is negative or no number.
    """

    margin_db: float = option(
        0.5,
        "An SQNR that is lower by more is worse, dB.",
        kinds.parsed("dB", kinds.not_negative),
        metavar="DB",
        file_only=True,
    )
    margin_points: float = option(
        0.5, "An agreement or an int8 share that is lower by more is worse, hundredths.",
        kinds.parsed("hundredths", kinds.not_negative), metavar="POINTS", file_only=True,
    )  # fmt: skip
    margin_percent: float = option(
        1.0, "A file that is larger, or a score that is lower, by more is worse, %.",
        kinds.parsed("percent", kinds.not_negative), metavar="PERCENT", file_only=True,
    )  # fmt: skip

    def _check(self) -> None:
        for name in ("margin_db", "margin_points", "margin_percent"):
            _check_goal(name, getattr(self, name), 0.0, math.inf, "a number that is not negative")


GROUPS: tuple[type, ...] = (
    Common, Repairs, Runtime, Inputs, DataPlace, Feeding, ImageOptions, Calibration, Division, Format,
    Compilation, Outcome, Papers, Details, Look, Goal, Ranking, AccuracyRepair, Margins,
)  # fmt: skip


def _refuse_taken() -> None:
    """Refuses a parameter of a method that has the name of an option.

    Raises:
        UserError: there is one, of a method of the user's.
    """
    for group in GROUPS:
        own = inspect.get_annotations(group)
        for name, said in kinds.read_options(group).items():
            for parameter in parameters():
                if name in own and parameter in (name, said.key):
                    raise UserError(
                        f"method {parameters()[parameter].name!r} has a parameter {parameter!r}, "
                        "and that is an option",
                        hint="rename the parameter",
                    )


_refuse_taken()
