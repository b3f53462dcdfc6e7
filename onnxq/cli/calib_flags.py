"""The flags of verbs that read `onnxq.toml`, and what it says where they are silent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from onnxq.config import CalibrationTable, Config, find_config, prefer
from onnxq.errors import UserError

ConfigPath = Annotated[
    Path | None, typer.Option("--config", metavar="X.toml", help="Settings; ./onnxq.toml by default.")
]
Samples = Annotated[
    int | None, typer.Option("--samples", metavar="N", help="How many samples calibrate at most; 512.")
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="N", help="Chooses the samples where there are more; 0.")
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Histograms of all values instead of some millions of each tensor.")
]


class Settings:
    """What the flags give, else the configuration file, else a default.

    Attributes:
        config: the file, or None.
    """

    def __init__(self, path: Path | None) -> None:
        """The settings of a file; without a path, of the one in the working directory, if there is one."""
        self.config: Config | None = find_config(path)

    def get(self, name: str, flag: Any, default: Any) -> Any:
        """The value of a setting in `[calibration]`."""
        file = getattr(self.config.calibration, name) if self.config is not None else None
        return prefer(flag, file, default)

    def method(
        self, flag: str | None, percentile: float | None, constant: float | None, *, search: bool
    ) -> Any:
        """The method; where none is given, a parameter says which."""
        file = self.config.calibration if self.config is not None else CalibrationTable()
        return prefer(
            flag or _of_parameters(percentile, constant, search=search),
            file.method or _of_parameters(file.percentile, file.constant),
            "auto",
        )

    def target(self, flag: str | None) -> str:
        """The target."""
        return prefer(flag, self.config.target if self.config is not None else None, "tensorrt-11")

    def tell(self, report: dict[str, Any]) -> None:
        """Adds the path of the file to a report."""
        if self.config is not None:
            report["config"] = str(self.config.path)

    def data(self, path: Path | None, script: str | None) -> Path | None:
        """The path of the data, unless a script gives them."""
        return path if script is not None else self.get("data", path, None)

    def images(self, flags: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The options on images."""
        preset = self.config.calibration.preset if self.config is not None else None
        given = {"preset": preset} if preset is not None else {}
        return {**given, **(flags or {})} or None


def refuse_parameters(
    method: str | None, percentile: float | None, constant: float | None, *, search: bool
) -> None:
    """Refuses flags on the method of which one would be ignored.

    Raises:
        UserError: there are some.
    """
    if search and percentile is not None:
        raise _exclude("--search", "--percentile", "the search chooses the percentile")
    own = {
        "percentile": [("--percentile", percentile is not None), ("--search", search)],
        "average": [("--constant", constant is not None)],
    }
    given = [(name, flag) for name, flags in own.items() for flag, is_given in flags if is_given]
    for name, flag in given:
        both = flag == "--search" and method == "auto"
        if method is not None and method != name and not both:
            raise _exclude(f"--method {method}", flag, f"{flag} is of method {name}")
    if len({name for name, _ in given}) > 1:
        (one, first), (other, second) = given
        raise _exclude(first, second, f"they are of the methods {one} and {other}")


def refuse_with_stats(
    stats: Path, on_samples: Mapping[str, bool], on_data: Mapping[str, bool], *, without_data: bool
) -> None:
    """Refuses flags that would be ignored, since `--stats` is given.

    Args:
        stats: the file; beside a calibration cache, data are calibrated with as without it.
        on_samples: the flags on the samples that calibrate, and whether each is given.
        on_data: likewise, those on how data are read.
        without_data: whether there are no data.

    Raises:
        UserError: there are some.
    """
    given = [flag for flag, is_given in {**on_samples, **on_data}.items() if is_given]
    if without_data and given:
        raise _exclude("--stats", given[0], "without data (--calib) there is nothing that it is about")
    chosen = [flag for flag in given if flag in on_samples]
    if chosen:
        from onnxq.calib.trt_cache import is_cache

        if not is_cache(stats):
            why = f"which samples calibrated, and how, is said by {str(stats)!r}"
            raise _exclude("--stats", chosen[0], why)


def _exclude(one: str, other: str, why: str) -> UserError:
    return UserError(f"{one} and {other} exclude each other: {why}", hint="leave one of them out")


def _of_parameters(percentile: float | None, constant: float | None, *, search: bool = False) -> str | None:
    """The method that has the parameters which are given."""
    if percentile is not None or search:
        return "percentile"
    return "average" if constant is not None else None
