"""What the sources of NVIDIA's open parser say, beside the tables: `python -m benchmarks.parser_sources DIR`.

DIR is a clone of github.com/onnx/onnx-tensorrt, or of a fork that has other releases. A release is the last
commit that states its version in CMakeLists.txt. It takes the operators that it has importers of, but for
those whose checker refuses every node. What a table of `onnxq/targets/` says otherwise is printed, and the
exit code is 1. Printed to be read, too: what `docs/operators.md` denies although there is an importer, and
with --words, release by release, the restrictions and types that are new in it or gone. What a release adds
beyond operators, a person writes into `since` or `lacks`, from these words and from the importers.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx

from onnxq.targets import is_known, load_target

_OPERATORS = {one.name for one in onnx.defs.get_all_schemas_with_history() if one.domain == ""}
_FILES = ("CMakeLists.txt", "builtin_op_importers.cpp", "onnxOpImporters.cpp")
_VERSION = re.compile(r"set\(ONNX2TRT_(?:MAJOR|MINOR) (\d+)\)")
_IMPORTER = re.compile(r"^DEFINE_BUILTIN_OP_IMPORTER\((\w+)\)", re.MULTILINE)
_REFUSED = re.compile(r"^DEFINE_OP_CHECKER\((\w+)\)\s*\{\s*STATIC_CHECK\(\s*false", re.MULTILINE)
_ROW = re.compile(r"^\| *(\w+) *\| *(Y|N)\b[^|\n]*\|?([^|\n]*)\|?([^|\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Release:
    """What the sources of a release say.

    Attributes:
        version: its first two numbers, `10.3`.
        commit: where they are from.
        imported: the operators of ONNX that it imports.
        documented: whether its documentation says that it takes an operator, with types and restrictions.
    """

    version: str
    commit: str
    imported: frozenset[str]
    documented: Mapping[str, tuple[bool, str]]


def releases(git_dir: str) -> Iterator[Release]:
    """Each release of 7.0 or later that there are sources of, the oldest first.

    Raises:
        subprocess.CalledProcessError: it is no git directory.
    """

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", git_dir, *words], capture_output=True, check=True)
        return done.stdout.decode(errors="replace")

    def text(commit: str, *paths: str) -> str:
        there = set(git("ls-tree", "-r", "--name-only", commit).split("\n"))
        return "\n".join(git("show", f"{commit}:{path}") for path in paths if path in there)

    commits: dict[tuple[int, ...], str] = {}
    for commit in git("log", "--all", "--date-order", "--reverse", "--format=%h", "--", *_FILES).split():
        numbers = tuple(map(int, _VERSION.findall(text(commit, _FILES[0]))))
        if len(numbers) == 2 and numbers >= (7, 0):
            commits[numbers] = commit
    for numbers, commit in sorted(commits.items()):
        importers = set(_IMPORTER.findall(text(commit, *_FILES[1:])))
        refused = set(_REFUSED.findall(text(commit, "onnxOpCheckers.cpp")))
        rows = _ROW.findall(text(commit, "operators.md", "docs/operators.md"))
        yield Release(
            ".".join(map(str, numbers)), commit, frozenset((importers - refused) & _OPERATORS),
            {op: (yes == "Y", f"{types.strip()}; {limits.strip()}") for op, yes, types, limits in rows},
        )  # fmt: skip


def otherwise(release: Release) -> list[str]:
    """What the table of a release says otherwise than its importers, an operator a line."""
    refused = load_target(release.version).unsupported
    more, less = release.imported & refused, _OPERATORS - release.imported - refused
    return [f"{op}: imported, the table lacks it" for op in sorted(more)] + [
        f"{op}: not imported, the table has it" for op in sorted(less)
    ]


def new_words(before: Release, after: Release) -> Iterator[str]:
    """What the documentation of a release says otherwise than that of the one before it."""
    for op, (taken, words) in after.documented.items():
        was = before.documented.get(op)
        if was is not None and was != (taken, words):
            yield f"{op}: was {was[1] or 'N'}; is {words}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("git_dir", metavar="DIR")
    parser.add_argument("--words", action="store_true", help="what the documentation says anew, too")
    given = parser.parse_args()
    wrong, before = 0, None
    for release in releases(given.git_dir):
        found = otherwise(release) if is_known(f"tensorrt-{release.version}") else ["there is no table of it"]
        denied = [op for op in sorted(release.imported) if not release.documented.get(op, (True, ""))[0]]
        words = new_words(before, release) if given.words and before is not None else ()
        print(f"{release.version}  {release.commit}  {len(release.imported)} operators")
        for line in (*found, *(f"{op}: imported, documented as N" for op in denied), *words):
            print(f"  {line}")
        wrong, before = wrong + len(found) * is_known(f"tensorrt-{release.version}"), release
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
