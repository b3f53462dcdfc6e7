"""The first `onnxq.toml` for a model and its data: every option with its help."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxq.base import door
from onnxq.base.errors import UserError
from onnxq.base.escapes import escaped, visible
from onnxq.base.plain import DocumentPart
from onnxq.base.progress import Observer, told
from onnxq.base.shown import Shown, Words
from onnxq.emit import files
from onnxq.emit.toml_schema import TITLE, settings_schema
from onnxq.inspection.data_seen import DataSeen, look
from onnxq.inspection.description import ModelSummary, describe
from onnxq.options.flag_words import tells_keywords
from onnxq.options.option import NOT, Option, read_options
from onnxq.options.settings import GROUPS

_WIDTH = 100

_EXAMPLES: Mapping[str, str] = {
    "rules": '["my_rules"]', "enable": '["unfuse_gelu"]', "skip": '["unfuse_gelu"]',
    "accept": '["unfuse_gelu"]',
    "plugin": '["my.domain.MyOp"]', "ort_ops": '["libops.so"]', "ops": '["my_ops.py"]', "largest": '"8GB"',
    "shape": '{x = "1x3x224x224"}', "assume": "{N = 1}", "freeze": "{k = [1, 2]}",
    "batch": '"1:8:32"',
    "data": '"images"', "data_loader_script": '"load.py:load_data"', "input_name": '{x = "image"}',
    "scale": '"1/255"', "mean": "[0.485, 0.456, 0.406]", "std": "[0.229, 0.224, 0.225]", "color": '"rgb"',
    "resize": "256", "crop": "[224, 224]", "letterbox": "true", "preset": '"imagenet"',
    "stats": '"model.stats.npz"', "keep_float": '["/head/*"]', "keep_float_op": '["Softmax"]',
    "format": '"fp8"', "loud": '"auto"', "keep_fp32": '["/norm/*"]',
    "pairs": '"adopt"',
    "body": '"fp16"', "io": '"fp32"', "scale_form": '"per-channel"', "plan": '"plan.toml"',
    "profile": '{x = "1x3x224x224:4x3x224x224:8x3x224x224"}',
    "profile_weight": "{decode = 0.9}",
    "ship_from": "80",
    "device": '"l4"',
    "min_sqnr": "30", "min_agreement": '"99"', "task": '"detect:yolov8"', "labels": '"labels.json"',
    "max_drop": "0.5", "eval": '"score.py:top1"',
    "max_float": '"5%"', "weigh": "{logits = 2}", "time_limit": "600", "steps": '["bias", "shift"]',
    "layer_samples": "16", "deploy": '"triton"',
}  # fmt: skip
"""What stands for options that have no value by default."""

_LAYER = """
# What is different for some layers: the first entry that matches a node wins.
# [[layer]]
# match = "/head/*"            # names of nodes; or op = ["Conv", "Gemm"]
# format = "float"             # or method = "mse", amax = 6.0, repair = ["bias"]
# because = "boxes lose precision"
"""


@dataclass(frozen=True, slots=True, repr=False)
class FirstSettings(Shown, DocumentPart):
    """A file of settings that was written.

    Attributes:
        kind: "settings".
        schema: 1.
        model: the path of the model.
        data: that of the data, None for none.
        output: the file.
        filled: the options that are set there, by `table.key`, as TOML; the others are comments.
        suggested: likewise what the model and the data suggest, as comments.
        doubts: what is doubtful about the data.
    """

    kind: str
    schema: int
    model: str
    data: str | None
    output: str
    filled: Mapping[str, str]
    suggested: Mapping[str, str]
    doubts: tuple[str, ...]

    def words(self) -> Words:
        """What is set, and what is suggested."""
        rows = [("set", name, text) for name, text in self.filled.items()]
        rows += [("suggested", name, text) for name, text in self.suggested.items()]
        return Words(f"{self.output}: settings for {self.model}", self.doubts, ("", "option", "value"), rows)


@tells_keywords
def init(
    model: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] = "onnxq.toml",
    *,
    force: bool = False,
    observe: Observer | None = None,
) -> FirstSettings:
    """Writes a commented `onnxq.toml` for a model and its data; all that it sets is where the data are.

    Its JSON Schema is written beside it, `onnxq.toml.schema.json`, for editors that know `#:schema`.

    Args:
        model: the model's path.
        data: that of the data, as in `onnxq.quantize`, of which the first 64 samples are looked at.
        output: the file to write; the path of the data is relative to its folder there.
        force: replace a file that is there.
        observe: is told the steps.

    Returns:
        What was written, and what the model and the data suggest.

    Raises:
        UserError: the model or the data cannot be used, or a file is there.
    """
    path, tell = Path(output), told(observe)
    if os.path.exists(path) and not force:
        raise UserError(
            f"{str(path)!r} exists, and may have been edited",
            hint="give another path with -o, or --force to replace it",
        )
    files.check_output(path, Path(model), force=True, record=path)
    tell("inspect", None, None)
    summary = describe(os.fspath(model))
    seen = None if data is None else look(os.fspath(model), os.fspath(data), observe=tell)
    filled = {} if data is None else {"calibration.data": _string(_relative(Path(data), path.parent))}
    suggested = dict(_suggested(summary, seen))
    doubts = tuple(f"{one.text}; {one.hint}" for one in seen.warnings) if seen is not None else ()
    title = f"Settings of onnxq for {summary.model}. What is a comment is so without it."
    lines = [*_comment(title), *_lines(filled, suggested, doubts)]
    form = path.with_name(f"{path.name}.schema.json")
    if _is_form(form):  # else it is the user's, and stays
        text = json.dumps(settings_schema(), indent=1, ensure_ascii=False)
        files.save_file(form, f"{text}\n".encode())
        if form.name.isprintable() and not form.name.count(" "):
            lines.insert(0, f"#:schema ./{form.name}")
    files.save_file(path, ("\n".join(lines) + "\n" + _LAYER).encode("utf-8"))
    return FirstSettings(
        kind="settings",
        schema=1,
        model=str(summary.model),
        data=None if data is None else str(data),
        output=str(path),
        filled=filled,
        suggested=suggested,
        doubts=doubts,
    )


def _is_form(path: Path) -> bool:
    """Whether the schema for editors may be written there: nothing is, or an earlier one."""
    try:
        return f'"title": "{TITLE}"' in door.text(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False


def _lines(filled: Mapping[str, str], suggested: Mapping[str, str], doubts: tuple[str, ...]) -> Iterator[str]:
    """Every option in its table, the top of the file first."""
    tables: dict[str, list[tuple[type, str, Option]]] = {"": []}
    for group in GROUPS:
        for name, option in read_options(group).items():
            tables.setdefault(option.tables[0], []).append((group, name, option))
    for table, options in tables.items():
        yield from ["", f"[{table}]"] if table else []
        if table == "images":
            for doubt in doubts:
                yield from _comment(f"Doubtful about the data: {doubt}")
        for group, name, option in options:
            place = f"{table}.{option.key}".lstrip(".")
            default = group.__dataclass_fields__[name].default  # type: ignore[attr-defined]
            text = filled.get(place) or suggested.get(place) or _value(option, default)
            yield ""
            yield from _comment(_help(option, suggests=place in suggested))
            yield f"{'' if place in filled else '# '}{option.key} = {text}"


def _help(option: Option, *, suggests: bool) -> str:
    """What an option is, and what its value in the file is."""
    code = " Obeyed only in a file that --config names." if option.runs_code else ""
    return f"{option.help}{code}{' Of this model:' if suggests else ''}"


def _value(option: Option, default: Any) -> str:
    """The default, or an example where there is none."""
    if option.kind is NOT:
        return "false" if default else "true"
    if default is None or default == ():
        return _EXAMPLES[option.key]
    if isinstance(default, tuple):
        return _string("/".join(map(str, default)))
    return str(default).lower() if isinstance(default, bool) else json.dumps(default)


def _suggested(model: ModelSummary, seen: DataSeen | None) -> Iterator[tuple[str, str]]:
    """Options that the model and the data make likely, by `table.key`."""
    if model.dynamic:
        yield "inputs.assume", _table(dict.fromkeys(model.dynamic, "1"))
        sizes = {
            entry.name: _string("x".join(str(dim) if isinstance(dim, int) else "1" for dim in entry.shape))
            for entry in model.inputs
            if entry.shape and not all(isinstance(dim, int) for dim in entry.shape)
        }
        fed = {} if seen is None else {one.name: one.shapes[0].shape for one in seen.inputs if one.shapes}
        sizes |= {name: _string("x".join(map(str, fed[name]))) for name in sizes if fed.get(name)}
        if sizes:
            yield "inputs.shape", _table(sizes)
            thrice = {name: _string(":".join([json.loads(text)] * 3)) for name, text in sizes.items()}
            yield "inputs.profile", _table(thrice)
    if model.outputs and len(model.outputs) > 1:
        yield "goal.weigh", _table({entry.name: "1" for entry in model.outputs})
    hints = " ".join(one.hint for one in seen.warnings) if seen is not None else ""
    preset = re.search(r"--preset (\w+)", hints)
    if preset is not None:
        yield "images.preset", _string(preset[1])


def _table(entries: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{_key(name)} = {text}' for name, text in entries.items())}}}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _string(name)


def _string(text: str) -> str:
    """Text as TOML has it: as JSON, what is not printable escaped."""
    return escaped(json.dumps(text, ensure_ascii=False), toml=True)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(visible(text), _WIDTH, break_on_hyphens=False)]


def _relative(path: Path, folder: Path) -> str:
    if path.is_absolute():
        return str(path)
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another drive
        return str(path.resolve())
