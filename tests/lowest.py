"""The lowest versions that pyproject.toml allows: constraints for pip, which `make test-oldest` installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_BOUND = re.compile(r"([\w-]+(?:\[\w-]+\])?)>=([\w.]+)")


def lowest() -> dict[str, str]:
    """Each package that onnxq depends on, those of its extras too, and the lowest version of it.

    Raises:
        ValueError: one is not stated as `name>=version`.
    """
    root = Path(__file__).resolve().parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    found = {}
    for stated in sum(project["optional-dependencies"].values(), project["dependencies"]):
        bound = _BOUND.fullmatch(stated)
        if bound is None:
            raise ValueError(f"{stated!r} states no lowest version, or more than that")
        found[bound[1]] = bound[2]
    return found


if __name__ == "__main__":
    print("\n".join(f"{name}=={version}" for name, version in lowest().items()))
