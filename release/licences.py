"""Prints the licence of each package of a CycloneDX list, which `make sbom` writes.

python -m release.licences out/onnxq.cdx.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def licences(document: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Name, version and licences of each component, by name; "not stated" where a package states none."""
    for component in sorted(document.get("components", ()), key=lambda one: one["name"].lower()):
        named = [_named(entry) for entry in component.get("licenses", ())]
        yield component["name"], component.get("version", ""), "; ".join(dict.fromkeys(named)) or "not stated"


def _named(entry: dict[str, Any]) -> str:
    if "expression" in entry:
        return str(entry["expression"])
    licence = entry["license"]
    return str(licence.get("id") or licence.get("name", "")).splitlines()[0]


if __name__ == "__main__":
    for row in licences(json.loads(Path(sys.argv[1]).read_text("utf-8"))):
        print(f"{row[0]:<32}{row[1]:<16}{row[2]}")
