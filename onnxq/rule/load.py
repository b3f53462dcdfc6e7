"""Loading rule files by path: the built-in ones, a package's, a user's folder."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from onnxq.base.errors import UserError, nearest, unknown_name
from onnxq.graph.features import FEATURES
from onnxq.graph.value import operator_names
from onnxq.rule.api import ANY, STAGES, Fires, Rule, Skips
from onnxq.rule.told import told
from onnxq.targets import stated_features


def builtin_dir() -> Path:
    """The folder of the built-in rules: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "rules"
    return inside if os.path.isdir(inside) else package.parent / "rules"


def load_rules(folders: Sequence[str | os.PathLike[str]] = ()) -> list[Rule]:
    """The built-in rules, those of installed packages (entry points `onnxq.rules`), and a user's.

    Args:
        folders: the user's folders. Their Python is run: name only folders that you trust.

    Raises:
        UserError: a folder or a rule file cannot be loaded, or two rules have the same name.
    """
    rules = _load_folder(builtin_dir())
    if not rules:
        raise UserError("onnxq's own rules are not there", hint="install onnxq again")
    for entry in entry_points(group="onnxq.rules"):
        rules += _load_folder(Path(str(entry.load())))
    for folder in folders:
        path = Path(folder)
        if os.path.isdir(path) and path.samefile(builtin_dir()):
            continue
        if not os.path.isdir(path):
            raise UserError(f"there is no rules folder {str(path)!r}", hint="give a folder of .py files")
        loaded = _load_folder(path)
        if not loaded:
            raise UserError(
                f"no rule in folder {str(path)!r}",
                hint="a rule is a .py file with one @rule function",
            )
        rules += loaded
    seen: dict[str, Rule] = {}
    for rule in rules:
        for name in (rule.id, *rule.aliases):
            if name in seen:
                raise UserError(
                    f"two rules are called {name!r}: {seen[name].path} and {rule.path}",
                    hint="rename the function in one of them",
                )
            seen[name] = rule
    return rules


def select(rules: Iterable[Rule], enable: Sequence[str] = (), skip: Sequence[str] = ()) -> list[Rule]:
    """The rules that are on.

    Args:
        rules: all rules.
        enable: names of rules to turn on whatever the target has.
        skip: names of rules to leave out.

    Raises:
        UserError: a name that no rule has.
    """
    rules = list(rules)
    names = {name: rule.id for rule in rules for name in (rule.id, *rule.aliases)}
    for name in (*enable, *skip):
        if name not in names:
            raise unknown_name("rule", name, names)
    on, off = {names[name] for name in enable}, {names[name] for name in skip}
    return [
        replace(rule, lacks=None, default=True) if rule.id in on else rule
        for rule in rules
        if rule.id not in off and (rule.default or rule.id in on)
    ]


def _load_folder(folder: Path) -> list[Rule]:
    files = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    with _own_helpers(folder):
        rules = [_load_file(path) for path in files]
    for rule in rules:
        check_rule(rule)
    return rules


@contextmanager
def _own_helpers(folder: Path) -> Iterator[None]:
    """Lets rule files import their folder's `_helper.py`, which another folder's does not see."""
    own = {path.stem for path in folder.glob("_*") if path.suffix == ".py" or os.path.isdir(path)}

    def take() -> dict[str, ModuleType]:
        return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in own}

    others = take()
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        take()
        sys.modules.update(others)


def _load_file(path: Path) -> Rule:
    folder = hashlib.blake2b(str(path.parent.resolve()).encode(), digest_size=6).hexdigest()
    name = f"onnxq.rules.{folder}.{path.stem}"  # of its own: two folders may have files of one name
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where a dataclass looks for it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(
            f"rule file {str(path)!r} does not load: {told(error, str(path))}",
            hint="all that a rule needs is in onnxq.rule; run `python` on the file to see more",
        ) from error
    rules = [value for value in vars(module).values() if isinstance(value, Rule)]
    if len(rules) != 1:
        raise UserError(
            f"rule file {str(path)!r} has {len(rules)} rules; a rule file has one",
            hint="name helper files with a leading underscore",
        )
    return replace(
        rules[0],
        doc=(module.__doc__ or "").strip(),
        examples=tuple(getattr(module, "EXAMPLES", ())),
        path=str(path),
    )


def check_rule(rule: Rule) -> None:
    """Refuses a rule that would never be asked.

    Raises:
        UserError: it is one, with the rule's name and file.
    """
    where = f"rule {rule.id!r} (in {rule.path or 'no file'})"
    if not rule.roots:
        raise UserError(f"{where} looks at no operator", hint="name them: @rule('Clip', stage='compat')")
    if rule.stage not in STAGES:
        raise UserError(
            f"{where} has the stage {rule.stage!r}: it would never be asked",
            hint=f"{nearest(rule.stage, STAGES)} The stages are {', '.join(STAGES)}".strip(),
        )
    for root in rule.roots:
        domain = root.rpartition(".")[0]
        if rule.stage == "place" and (domain or root == ANY):
            what = "every operator" if root == ANY else f"an operator of domain {domain!r}"
            raise UserError(
                f"{where} is a placement rule for {root!r}, {what}: it would never be asked",
                hint="placement rules name operators of ONNX's own domain: @place('Add', 'Mul')",
            )
        if root != ANY and (domain or root not in operator_names()) and not _is_in_an_example(rule, root):
            whose = "its examples have" if domain else "ONNX has"
            raise UserError(
                f"{where} looks at {root!r}: {whose} no such operator, it would never be asked",
                hint=nearest(root, operator_names()) or "one that is not ONNX's own must be in an example",
            )
    features = stated_features() | FEATURES
    if rule.lacks is not None and rule.lacks not in features and rule.lacks not in operator_names():
        hint = nearest(rule.lacks, features) or "see onnxq/targets/*.toml"
        raise UserError(
            f"{where} waits for a target that lacks {rule.lacks!r}: no target's table names that, it would "
            "never fire",
            hint=f"{hint} Without `lacks` the rule is always on",
        )


def _is_in_an_example(rule: Rule, root: str) -> bool:
    """Whether an example holds an operator that is not ONNX's own, as far as they are texts."""
    domain, _, name = root.rpartition(".")
    texts = [example.model for example in rule.examples if isinstance(example, Fires | Skips)]
    if domain and not texts:
        return True  # a rule in the making
    return any(not isinstance(text, str) or re.search(rf"\b{re.escape(name)}\b", text) for text in texts)
