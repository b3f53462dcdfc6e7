"""The versions of what onnxq runs with, as they are installed."""

from __future__ import annotations

import importlib.metadata
import platform

from onnxq.base.version import VERSION

PACKAGES = ("onnx", "onnxruntime", "onnx-graphsurgeon", "numpy", "ml_dtypes", "polygraphy", "tensorrt-rtx")


def version_of(package: str) -> str:
    """The version of an installed package, else "not installed"."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def versions() -> list[str]:
    """A line for onnxq, one for Python and the machine, and one for each package."""
    return [
        f"onnxq {VERSION}",
        f"python {platform.python_version()} on {platform.platform()}",
        *(f"{name} {version_of(name)}" for name in PACKAGES),
    ]
