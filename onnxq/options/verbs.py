"""Every verb, once: the groups of options that it takes, on the command line and in Python.

Its flags and their panels (`cli/chosen.py`), the keys of `onnxq.toml` that count, the keywords of its
function (`grouped.py`), what `help` (`keywords.py`) and type checkers (`call_options.pyi`) know of them
are made of it. The command line shows the verbs in these panels and this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from onnxq.options.option import Option, read_options
from onnxq.options.settings import (
    DEPLOYED,
    AccuracyRepair,
    Calibration,
    Common,
    Compilation,
    DataPlace,
    Details,
    Division,
    Feeding,
    Format,
    Goal,
    ImageOptions,
    Inputs,
    Look,
    Margins,
    Outcome,
    Papers,
    Ranking,
    Repairs,
    Runtime,
)


@dataclass(frozen=True, slots=True)
class Verb:
    """What a verb takes beside its own arguments and flags.

    Attributes:
        groups: groups of options, each a panel of `--help`.
        without: options of theirs that it does not have.
        keys: options of theirs that are keys of `onnxq.toml` here, and flags of other verbs.
        shadowed: options of theirs that are in their group alone: the function has such a keyword.
        config: whether it reads `onnxq.toml`, and has the flag --config.
        data: the flag of the path of the data.
        function: the name of the function in Python that takes the groups, where that is not its own.
        first: the flags that matter most, which `--help` shows; none: it shows all, which are few.
        panel: the panel of `onnxq --help` that it is in.
    """

    groups: tuple[type, ...] = ()
    without: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    shadowed: tuple[str, ...] = ()
    config: bool = False
    data: str = "--calib"
    function: str = ""
    first: tuple[str, ...] = ()
    panel: str = ""

    def flags(self, group: type) -> Mapping[str, Option]:
        """Those options of a group that are flags."""
        return {
            name: said
            for name, said in self.options(group).items()
            if not said.beside and not (self.config and (said.file_only or name in self.keys))
        }

    def options(self, group: type) -> Mapping[str, Option]:
        """The options that it has of a group, by the names of their fields; `Common` every verb has."""
        found = dict(read_options(group, self.without)) if group in (*self.groups, Common) else {}
        if group is DataPlace and found:
            found["path"] = replace(found["path"], flag=(self.data,))
        return found


def _flags(names: str) -> tuple[str, ...]:
    return tuple(f"--{name}" for name in names.split())


_DATA = (DataPlace, Feeding, ImageOptions)
_CALIBRATED = (*_DATA, Calibration)
_QUANTIZED = (*_CALIBRATED, AccuracyRepair, Format)
_MODEL = (Repairs, Inputs)
_GATES = ("min_sqnr", "min_agreement", "task", "labels", "ship_from", "max_drop", "time_limit")
_REPAIRING = ("enable", "skip", "accept", "prove", "pairs", "allow_interface_changes")
_SEARCHED = ("max_float", "costs", "measure", "time_limit")

_PANELS: Mapping[str, Mapping[str, Verb]] = {
    "Make a model": {
        "quantize": Verb(
            (*_QUANTIZED, Goal, Division, *_MODEL, Compilation, Outcome, Papers, Details, Runtime),
            without=("allow_interface_changes", "shard", "dla"), keys=("keep_fp32", "prove", "workers"),
            config=True,
            first=_flags("calib output target preset shape batch min-sqnr min-agreement keep-float repair"),
        ),
        "sanitize": Verb(
            (*_CALIBRATED, Format, Papers, *_MODEL, Runtime),
            without=("pairs", "method", "exact", "samples", "seed", "partial",
                     "number_format", "keep_float", "keep_float_op", "loud", "scale_form", "cache", "plan",
                     "profiles", "profile_weights"),
            config=True,
            first=_flags("output target shape batch assume freeze rules body prove calib"),
        ),
        "calibrate": Verb(
            (*_CALIBRATED, Division, *_MODEL, Runtime),
            without=("method", "stats", "partial", "prove", "allow_interface_changes"), config=True,
            first=_flags("calib output target preset shape batch samples shard workers merge"),
        ),
        "plan": Verb(
            (*_QUANTIZED, *_MODEL, Compilation, Runtime),
            without=("allow_interface_changes", "cache", "plan", "compile", "dla"), keys=("keep_fp32",),
            config=True,
            first=_flags("calib output target preset shape batch method keep-float body repair"),
        ),
        "bundle": Verb(
            (*_QUANTIZED, *_MODEL, Compilation, Runtime),
            without=("allow_interface_changes", "cache", "plan", "compile", "dla", "stats", "partial",
                     "pairs"),
            keys=("keep_fp32",), config=True,
            first=_flags("calib output target device preset shape batch method references repair"),
        ),
    },
    "Look at a model, data or a run": {
        "check": Verb(
            (*_CALIBRATED, *_MODEL, Compilation, Runtime),
            without=("allow_interface_changes", "pairs", "profile_weights"), config=True,
            first=_flags("target calib strict as report check shape assume rules no-engine"),
        ),
        "inspect": Verb(
            (Inputs,), without=("assume", "freeze"),
            first=_flags("tensor nodes match op around dot all csv shape batch"),
        ),
        "statistics activations": Verb(
            (*_DATA, Runtime), function="statistics", shadowed=("ops",),
            first=_flags("calib stats against samples match op all csv preset integers"),
        ),
        "statistics weights": Verb(),
        "statistics memory": Verb((Inputs,), without=("freeze", *DEPLOYED)),
        "data": Verb(
            (DataPlace, Look, Feeding, ImageOptions, Inputs), without=DEPLOYED, config=True, function="look",
            first=_flags("calib samples sheet preset mean std scale color skip-bad shape"),
        ),
        "decide": Verb(),
        "compare": Verb(
            (*_DATA, Goal, Runtime), without=_SEARCHED, config=True, data="--data",
            first=_flags("data samples min-sqnr min-agreement max-drop eval task labels preset skip-bad"),
        ),
        "analyze": Verb(
            (*_DATA, Runtime), data="--data", shadowed=("ops",),
            first=_flags("data samples threshold metric match op noise csv preset skip-bad"),
        ),
        "sensitivity": Verb(
            (*_QUANTIZED, Goal, Ranking, Division, *_MODEL, Runtime),
            without=("allow_interface_changes", "shard", "cache", *_GATES), keys=("keep_fp32",), config=True,
            first=_flags("calib output target preset shape batch eval max-float keep-float workers"),
        ),
        "engine": Verb(
            (Compilation, Inputs),
            without=("compile", "dla", "shapes", "assume", "freeze", "batch", "profile_weights"),
            first=_flags(
                "compare layer-info profile-times run-times against-fp16 device match op dot profile"
            ),
        ),
        "report": Verb((Margins,), config=True, function="diff"),
    },
    "Cut a model": {
        "pieces split": Verb(
            (*_DATA, Repairs, Inputs, Compilation, Runtime), data="--data",
            without=("rules", *_REPAIRING, "shapes", "assume", "freeze", "batch", "profile_weights",
                     "compile", "dla"),
            first=_flags("until-compiles at at-op output target device data profile preset skip-bad"),
        ),
        "pieces run": Verb(
            (*_DATA, Runtime), data="--data", function="run_pieces",
            first=_flags("data samples original use tolerance save preset mean std skip-bad"),
        ),
        "pieces extract": Verb((Runtime,)),
    },
    "Settings and words": {
        "init": Verb((DataPlace,), without=("script",)),
        "help": Verb(),
        "rules list": Verb((Repairs,), without=("target", "plugin", *_REPAIRING)),
        "rules explain": Verb((Repairs,), without=("plugin", *_REPAIRING)),
        "rules page": Verb(),
        "rules test": Verb(),
    },
}  # fmt: skip

VERBS: Mapping[str, Verb] = {
    name: replace(verb, panel=panel) for panel, verbs in _PANELS.items() for name, verb in verbs.items()
}
"""The verbs of the command line by name; those of a group have its name in front."""


def verb_of(function: str) -> Verb:
    """The verb of a function that takes groups of options."""
    return next(verb for name, verb in VERBS.items() if (verb.function or name.split()[-1]) == function)
