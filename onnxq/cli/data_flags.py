"""The flags of verbs that read data: where it is, how images become inputs, what is left out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from onnxq.cli.options import parse_input_names, size, sizes
from onnxq.errors import UserError

T = TypeVar("T")

Data = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="PATH", help="A folder or file of images or arrays, or a list.", show_default=False
    ),
]
CalibrationData = Annotated[
    Path | None,
    typer.Option(
        "--calib",
        metavar="PATH",
        help="Calibration data: a folder or file of images or arrays, or a list.",
        show_default=False,
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out samples that are bad, count and report them.")
]
InputNames = Annotated[
    list[str] | None,
    typer.Option(
        "--input-name", metavar="INPUT=NAME", help="What the data call an input that has another name there."
    ),
]
DataLoaderScript = Annotated[
    str | None,
    typer.Option(
        "--data-loader-script",
        metavar="X.py[:FUNC]",
        help="Instead of a path: a script whose load_data (or FUNC) yields {input: array}; it is run.",
    ),
]

_IMAGE_FLAGS: Mapping[str, Any] = {
    "preset": Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help="Images: imagenet, yolo, tensorflow or raw."),
    ],
    "mean": Annotated[
        str | None,
        typer.Option(
            "--mean", metavar="M[,M,M]", help="Images: subtracted from each channel, after --scale."
        ),
    ],
    "std": Annotated[
        str | None, typer.Option("--std", metavar="S[,S,S]", help="Images: each channel is divided by it.")
    ],
    "scale": Annotated[
        str | None,
        typer.Option("--scale", metavar="F", help="Images: factor of 0..255; 1/255 for a float input."),
    ],
    "color": Annotated[
        str | None,
        typer.Option("--color", metavar="ORDER", help="Images: order of the channels: rgb, bgr or gray."),
    ],
    "resize": Annotated[
        str | None,
        typer.Option("--resize", metavar="WxH|SIDE", help="Images: to this size, or this shorter side."),
    ],
    "crop": Annotated[
        str | None, typer.Option("--crop", metavar="WxH", help="Images: the center, after --resize.")
    ],
    "letterbox": Annotated[
        bool, typer.Option("--letterbox", help="Images: keep the aspect ratio, pad with gray 114 (YOLO).")
    ],
}
_FLAGS: Mapping[str, Any] = {
    **_IMAGE_FLAGS,
    "skip_bad": SkipBad,
    "input_name": InputNames,
    "data_loader_script": DataLoaderScript,
}


def takes_data(function: Callable[..., T]) -> Callable[..., T]:
    """Gives a verb the flags on data.

    The verb has a parameter `calib` or `data`, the path, and gets four more: `images`, what
    `onnxq.data.image_options.image_options` takes, None where no flag on images is given;
    `skip_bad`; `input_names`, what `onnxq.data.samples.named` takes; and `script`, the value of
    `--data-loader-script`. `data_source` makes of path and script what
    `onnxq.data.sources.open_source` takes.
    """
    signature = inspect.signature(function, eval_str=True)

    @functools.wraps(function)
    def verb(*arguments: Any, **named: Any) -> T:
        images = parse_images({name: named.pop(name) for name in _IMAGE_FLAGS})
        script = named.pop("data_loader_script")
        names = parse_input_names(named.pop("input_name"))
        return function(*arguments, **named, images=images, input_names=names, script=script)

    given = ("images", "skip_bad", "input_names", "script")
    own = [p for name, p in signature.parameters.items() if name not in given]
    flags = [
        inspect.Parameter(
            name, own[-1].kind, default=False if name in ("letterbox", "skip_bad") else None, annotation=flag
        )
        for name, flag in _FLAGS.items()
    ]
    verb.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
    return verb


def data_source(path: Path | None, script: str | None, verb: str) -> Path | Iterable[Any]:
    """What `onnxq.data.sources.open_source` takes, of the path or else the script that was given.

    Args:
        path: the value of `--calib` or `--data`.
        script: the value of `--data-loader-script`.
        verb: the name of the verb, for messages.

    Raises:
        UserError: neither or both are given, or the script cannot be loaded.
    """
    if (path is None) == (script is None):
        given = "no data is given: there is neither" if script is None else "data is given twice, by"
        between = "nor" if script is None else "and by"
        flag = "--data" if verb in ("compare", "run") else "--calib"
        raise UserError(f"{given} {flag} {between} --data-loader-script", hint=f"see onnxq {verb} --help")
    if script is None:
        assert path is not None
        return path
    from onnxq.data.script import load_script

    return load_script(script)


def parse_images(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The image options that flags give, by name; None where none is given.

    Raises:
        UserError: one is ill-formed.
    """
    readers: dict[str, tuple[Callable[[str], Any], str]] = {
        "mean": (_numbers, "M or M,M,M: numbers or fractions, as in 0.485,0.456,0.406"),
        "std": (_numbers, "S or S,S,S: numbers or fractions, as in 0.229,0.224,0.225"),
        "scale": (_fraction, "F, a number or a fraction, as in 1/255"),
        "resize": (_side_or_size, "WIDTHxHEIGHT, as in 640x480, or the shorter side, as in 256"),
        "crop": (_width_height, "WIDTHxHEIGHT, as in 224x224"),
    }
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or value is False:
            continue
        read, form = readers.get(name, (lambda text: text, ""))
        try:
            found[name] = read(value)
        except (ValueError, ZeroDivisionError) as error:
            raise UserError(
                f"--{name} {value!r} is not understood: {error}", hint=f"the form is --{name} {form}"
            ) from error
    return found or None


def _width_height(text: str) -> tuple[int, int]:
    found = sizes(text)
    if len(found) != 2:
        raise ValueError(f"{text!r} is no width and height")
    return found[0], found[1]


def _side_or_size(text: str) -> int | tuple[int, int]:
    return _width_height(text) if "x" in text else size(text)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(_fraction(part) for part in text.split(","))


def _fraction(text: str) -> float:
    """A number or the quotient of two, as in 1/255."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except ValueError:
        raise ValueError(f"{text!r} is no number") from None
