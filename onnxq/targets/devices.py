"""Devices: the GPUs that an engine is to run on, as data: `devices.toml`."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxq.base import tables
from onnxq.base.errors import UserError, unknown_name
from onnxq.targets import Target, device_table, dla_table, is_known, load_target, version_of

ASSUMED = 89
"""The compute capability that is compiled for where no device is named."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or all of a compute capability.

    Attributes:
        name: as in `--device`: `orin-nx`; of a compute capability its number, `87`.
        title: the product's name.
        sm: the compute capability, 87 for 8.7.
        architecture: the name of its architecture; "" where it is not known.
        tensorrt: the releases of TensorRT that serve it, the first and the last of each range, "" where there
            is none; empty where it is not known.
        memory: GB, the least and the most of its kinds; empty where it is not stated.
        bandwidth: GB a second, likewise.
        dla: how many deep learning accelerators it has.
    """

    name: str
    title: str
    sm: int
    architecture: str
    tensorrt: Sequence[Sequence[str]]
    memory: Sequence[int] = ()
    bandwidth: Sequence[int] = ()
    dla: int = 0

    def compiled_as(self, target: Target) -> int:
        """The nearest compute capability that the compiler has: of the same architecture where it has one.

        Args:
            target: of TensorRT for RTX it is its own compiler; of others what it alone refuses counts for
                nothing.
        """
        compiler, own = device_table()["compiler"], target.compiler == "own"
        known = [one for one in compiler["capabilities"] if own or one not in compiler["own"]]
        same = [one for one in known if _of_number(one).architecture == self.architecture]
        return int(min(same or known, key=lambda one: (abs(one - self.sm), one)))

    def multiplies(self, format: str) -> bool:
        """Whether it multiplies in a number format."""
        return self.sm >= first_with(format)

    def serves(self, target: Target) -> bool:
        """Whether a release of TensorRT runs on it; of a table of the user's it is taken to."""
        if not is_known(target.name):
            return True
        if target.compiler == "own":
            return self.sm in device_table()["compiler"]["capabilities"]
        version = version_of(target.name)
        return not self.tensorrt or any(
            (not first or version_of(first)[: len(version)] <= version)
            and (not last or version[: len(version_of(last))] <= version_of(last))
            for first, last in self.tensorrt
        )

    def has_dla(self, target: Target) -> bool:
        """Whether a release runs on its deep learning accelerator; a table of the user's is taken to."""
        if not self.dla or not is_known(target.name) or target.compiler == "own":
            return self.dla > 0 and not is_known(target.name)
        version, (old, new) = version_of(target.name), dla_table()["releases"]
        if version[0] >= version_of(new[0])[0]:
            return version >= version_of(new[0]) and self.name in dla_table()["typed"]
        return version_of(old[0]) <= version and version[:2] <= version_of(old[1])

    @property
    def releases(self) -> str:
        """The releases that serve it, in words: `8.4 to 10, and from 11.4 on`."""
        ends = [(first, f"{last}.x" if last.isdigit() else last) for first, last in self.tensorrt]
        return ", and ".join(
            f"{first} to {last}" if first and last else f"up to {last}" if last else f"from {first} on"
            for first, last in ends
            if first or last
        )

    @property
    def target(self) -> str:
        """A target that serves it, for `--target`: of a Jetson the newest JetPack's, else the first."""
        packs = [name for name, one in device_table()["jetpack"].items() if self.sm in one["sm"]]
        found = [name for name in packs if self.serves(load_target(f"jetpack-{name}"))]
        if found:
            return f"jetpack-{found[-1]}"
        return f"tensorrt-{next((end for ends in self.tensorrt for end in ends if end), '11')}"


def first_with(what: str) -> int:
    """The first compute capability that multiplies in a number format, or that has sparse weights."""
    return int(device_table()["from"].get(what, 0))


def device_of(named: str | int | Path) -> Device:
    """A device by its name, `orin-nx`; by a compute capability, `8.7` or `87`; or by its file.

    Args:
        named: as `--device` takes it. A file `X.toml` of the user's states `title` and `sm`, and may state
            the `first` and the `last` release of TensorRT that serves it.

    Raises:
        UserError: there is no such device, or the file cannot be read or makes no sense.
    """
    if not is_name(str(named)):
        return tables.load(Path(str(named)), lambda data, _: _own(str(named), data))
    text = re.sub(r"[\s_]+", "-", str(named).strip().lower())
    table, rows = device_table(), device_table()["device"]
    if re.fullmatch(r"(sm-?|compute-?)?\d+(\.\d)?a?", text):
        sm = re.sub(r"\D", "", text)
        if sm not in table["capability"]:
            error = unknown_name("compute capability", sm, [*table["capability"]])
            raise UserError(str(error), hint=f"{error.hint}; or a device of your own, X.toml")
        return _of_number(int(sm))
    name = re.sub(r"^(nvidia-)?(jetson-|geforce-)?", "", text)
    name = re.sub(r"^rtx-?([2-5])0\d\d.*", r"rtx-\g<1>0", name)
    turned = "-".join(reversed(name.split("-", 1)))
    found = next((one for one in (name, turned) if one in rows), None)
    if found is None:
        error = unknown_name("device", str(named), sorted(rows))
        raise UserError(
            str(error), hint=f"{error.hint}; a compute capability, 87; or one of your own, X.toml"
        )
    return _made(found, rows[found])


def is_name(named: str) -> bool:
    """Whether a device is named, and not the file of one."""
    return not named.endswith(".toml")


def named_as(named: str) -> str:
    """The name of a device that is named otherwise; of a file, its path.

    Raises:
        UserError: there is no such device.
    """
    return device_of(named).name if is_name(named) else named


def _release(key: str, value: Any) -> str:
    """A release of TensorRT, as 10 or "10.3"."""
    text = str(value)
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise tables.is_not(key, value, "a release of TensorRT", f'write {key} = "10.3"')
    return text


_READERS: Mapping[str, tables.Reader] = {
    "title": tables.text, "sm": tables.whole(70), "first": _release, "last": _release,
}  # fmt: skip


def _own(path: str, data: Mapping[str, Any]) -> Device:
    """A device of the user's file: `title`, `sm`, and the `first` and `last` TensorRT that serves it."""
    row = tables.read_table(data, _READERS, ())
    for key in ("title", "sm"):
        if key not in row:
            raise tables.At((), f"it says no {key}", 'write title = "My board" and sm = 87')
    ends = [row.get("first", ""), row.get("last", "")]
    return _made(path, {**row, "tensorrt": [ends]} if any(ends) else row)


def devices() -> tuple[Device, ...]:
    """All that are named."""
    return tuple(map(device_of, device_table()["device"]))


@functools.cache
def _of_number(sm: int) -> Device:
    named = [row["title"] for row in device_table()["device"].values() if row["sm"] == sm]
    title = f"compute capability {sm // 10}.{sm % 10}" + (f" ({', '.join(named)})" if named else "")
    return _made(str(sm), {"title": title, "sm": sm})


def _made(name: str, row: Mapping[str, Any]) -> Device:
    own = device_table()["capability"].get(str(row["sm"]), {})
    return Device(
        name, row["title"], row["sm"], own.get("architecture", ""),
        row.get("tensorrt", own.get("tensorrt", ())), row.get("memory", ()), row.get("bandwidth", ()),
        row.get("dla", 0),
    )  # fmt: skip
