"""What is a file each and has a name: what a package of onnxq's holds, and files that the user names."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.user_code import CodeForm, run_file

T = TypeVar("T", bound=Any)


def at(place: Any) -> Any:
    """What `module:name` names, whose module is imported now; what is no text is itself."""
    if not isinstance(place, str):
        return place
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def of_package(package: str, kind: type[T]) -> dict[str, T]:
    """What the modules of a package hold of a type, by its `name`; modules by theirs.

    Raises:
        AssertionError: two have one name.
    """
    members: dict[str, T] = {}
    for entry in pkgutil.iter_modules(importlib.import_module(package).__path__):
        for value in vars(importlib.import_module(f"{package}.{entry.name}")).values():
            if isinstance(value, kind) and members.setdefault(value.name, value) is not value:
                raise AssertionError(f"two of {package} are named {value.name!r}")
    return members


def of_package_and_user(
    package: str,
    kind: type[T],
    variable: str,
    asked: CodeForm,
    what: str,
    taken: Collection[str],
    refuse: Callable[[Path, T, Mapping[str, T]], None] = lambda path, new, known: None,
) -> dict[str, T]:
    """What a package and files of the user's hold of a type, by name, in their order.

    Args:
        package: of onnxq's, of which it is said that it is `ours`.
        kind: a frozen dataclass with `name`, `place` and `ours`; those of one place by name.
        variable: of the environment: files of the user's and folders of them, with `os.pathsep` between;
            their Python is run.
        asked: what a file is to hold.
        what: what one is called for short.
        taken: names that mean something else.
        refuse: refuses what does not go with those that are there; it is given the file as well.

    Raises:
        UserError: a file is not there, cannot be run, holds none, or one whose name is taken.
    """
    known = {name: replace(value, ours=True) for name, value in of_package(package, kind).items()}
    named = [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]
    for path in (f for p in named for f in (sorted(p.glob("*.py")) if os.path.isdir(p) else [p])):
        if not os.path.isfile(path):
            error = unknown_name(f"file of {asked.what}s", str(path), map(str, path.parent.glob("*.py")))
            raise UserError(str(error), hint=error.hint or f"the form is {asked.path_form}")
        members = [value for value in run_file(path, asked).values() if isinstance(value, kind)]
        if not members:
            raise UserError(f"{str(path)!r} has no {asked.what}", hint=f"the form is {asked.form}")
        for new in members:
            if new.name in (*known, *taken):
                message = f"{str(path)!r} has a {what} {new.name!r}, and there is one"
                raise UserError(message, hint="rename yours")
            refuse(path, new, known)
            known[new.name] = new
    return {one.name: one for one in sorted(known.values(), key=lambda one: (one.place, one.name))}
