"""The flags of verbs that calibrate, and what `onnxq.toml` says where they are silent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from onnxq.config import Calibration, Config, find_config, prefer

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
CalibrationTarget = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="NAME", help="tensorrt-11 (default), tensorrt-rtx, ... (see the README)."
    ),
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
        file = self.config.calibration if self.config is not None else Calibration()
        return prefer(
            flag or _of_parameters(percentile, constant, search=search),
            file.method or _of_parameters(file.percentile, file.constant),
            "auto",
        )

    def target(self, flag: str | None) -> str:
        """The target."""
        return prefer(flag, self.config.target if self.config is not None else None, "tensorrt-11")

    def data(self, path: Path | None, script: str | None) -> Path | None:
        """The path of the data, unless a script gives them."""
        return path if script is not None else self.get("data", path, None)

    def images(self, flags: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The options on images."""
        preset = self.config.calibration.preset if self.config is not None else None
        given = {"preset": preset} if preset is not None else {}
        return {**given, **(flags or {})} or None


def _of_parameters(percentile: float | None, constant: float | None, *, search: bool = False) -> str | None:
    """The method that has the parameters which are given."""
    if percentile is not None or search:
        return "percentile"
    return "average" if constant is not None else None
