"""How much of the package is in more than one shape, counted in its syntax: `python -m benchmarks.counts`.

Each count is a function from the parsed files to places, so that `--places pairs` shows what was counted.
They are to be read before and after: a place that names `DequantizeLinear` need not be one too many.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LONG, MANY = 60, 8  # lines of a function, and its parameters, that are not counted yet

# Where documents are read and written as JSON; else they are types.
REPORT_ROOM = ("documents/", "emit/", "base/json_file.py", "base/plain.py", "base/typed.py")
PAIR_ROOM = ("graph/pairs.py", "quant/insert.py")
FORMAT_ROOM = ("formats/",)


WORDS_ROOM = ("report/", "options/")

SENTENCE = 4  # words
_WORD = re.compile(r"(?<![\w-])[A-Za-z][a-z']*(?![\w-])")
_PATTERN = re.compile(r"\\|\(\?|\.\*|\w\|\w")
_SAID_BY = ("help", "hint")  # keywords
_FIELDS_OF_WORDS = {
    "advice", "because", "caution", "consequence", "hint", "message", "note", "notes", "reason", "said",
    "says", "sentence", "summary", "text", "why", "words",
}  # fmt: skip


def _keys(path: str, what: str, *keys: str) -> dict[str, str]:
    return dict.fromkeys((f"{path}:{key}" for key in keys), what)


BY_KEY = {
    "analysis/segments.py": "the attributes of a node",
    "calib/stats_file.py": "the arrays of an archive, and the number of its form",
    "calib/trt_cache.py": "the groups of a pattern",
    "cli/peer_flags.py": "rows of the catalogue",
    "checks/each/dla.py": "rows of dla.toml",
    "checks/own.py": "what a function of the user's gives",
    "compiled/exported.py": "files of trtexec",
    "compiled/reading.py": "counts by kind and type",
    "inspection/checking.py:uri": "a place of SARIF",
    "graph/constants.py": "where external data are",
    "graph/features.py": "the attributes of a node",
    "graph/infer.py": "the attributes of a node",
    "targets/devices.py": "rows of devices.toml",
    "task/fits.py": "what a text of --task says, by part",
    "task/labels.py": "COCO's JSON, which others write",
    "noise/measure.py": "the head of a file that nothing else reads",
    "options/config.py": "the tables of onnxq.toml",
    "options/exclusions.py": "options",
    "options/option.py": "what a field says of its option",
    "options/settings.py": "options",
    "options/verbs.py": "an option",
    "quant/plan_arrays.py": "the arrays of an archive",
    "quant/plan_reading.py": "the tables of a plan, which `base/tables.py` checked",
    "quant/draft/edit_kinds.py": "a table of a plan",
    "rewrite/oracle.py": "the attributes of a node",
    "rule/api.py": "a type",
    "run/deployments.py": "sizes by deployment",
    "run/engine_log.py": "the compiler's list of layers",
    "run/telemetry.py": "a module",
    "run/trial_child.py": "what a child process is asked",
    "run/trt.py": "what a child process answers",
    "run/trt_child.py": "what a child process is asked",
    "targets/__init__.py": "the tables of a target",
    **_keys("cli/bar.py", "a module", "IPython"),
    **_keys("cli/check.py", "an option", "stats"),
    **_keys("cli/chosen.py", "an option", "path", "quiet", "script", "verbose"),
    **_keys("cli/pages/diff.py", "a margin by option", "margin_db", "margin_percent", "margin_points"),
    **_keys("cli/pages/model.py", "a count by operator", "DequantizeLinear", "QuantizeLinear", "layers"),
    **_keys("cli/screen.py", "a variable of the environment", "COLUMNS"),
    **_keys("cli/verb.py", "a flag in front of the verb", "quiet", "verbose"),
    **_keys("pipeline/building.py", "a limit of the target", "slices-apart", "weight-codes"),
    **_keys("inspection/description.py", "a count by operator", "layers"),
    **_keys("pipeline/job.py", "a limit of the target", "weight-blocks"),
    **_keys("pipeline/pursuit.py", "a score", "choose", "verify"),
    **_keys("pipeline/sampling.py", "what samples are read for", "choose", "confirm"),
    **_keys("pipeline/searches/goal.py", "an aim or a score", "agreement", "choose", "drop", "sqnr"),
    **_keys("rewrite/proof.py", "the attributes of a node", "auto_pad", "dilations", "strides"),
    **_keys("rule/messages.py", "a message of the catalogue", "no-importer"),
    **_keys("pipeline/stage_comparison.py", "a bound by its option", "sqnr"),
}
"""What is read by a text and is no document: by file, of files that read documents too by `file:key`."""

# What is handed through the pipeline and changed on the way: the classes, and the names of their variables.
CARRIERS = ("Job", "Prepared", "Draft", "BodyPlan", "FloatModel", "Built", "Run", "Version", "Sampling")
_CARRIER_NAMES = {"ranges", *(name.lower() for name in CARRIERS)}

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class File(NamedTuple):
    """A parsed file of the package; `path` is below the package, with slashes."""

    path: str
    text: str
    tree: ast.Module


class Place(NamedTuple):
    """What was counted, and where."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"onnxq/{self.path}:{self.line}: {self.what}"


def files(tree: Path) -> list[File]:
    """The files of a checkout's package, parsed."""
    package = tree / "onnxq"
    texts = [
        (path.relative_to(package).as_posix(), path.read_text("utf-8")) for path in package.rglob("*.py")
    ]
    return [File(path, text, ast.parse(text)) for path, text in sorted(texts)]


def document_fields(tree: Path) -> frozenset[str]:
    """The names of fields of the checkout's documents, by their schemas."""
    found: set[str] = set()

    def look(value: object) -> None:
        if isinstance(value, dict):
            found.update(value.get("properties", ()))
            value = list(value.values())
        if isinstance(value, list):
            for one in value:
                look(one)

    for path in (tree / "docs").rglob("*.schema.json"):
        look(json.loads(path.read_text("utf-8")))
    return frozenset(found)


# --- counts ---------------------------------------------------------------------------------------


def keys_read(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The texts by which something is read: `x["key"]`, `x.get("key")`.

    Not `"key" in x`, which is asked of texts and sets: what is of a type has every field.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(key)), ctx=ast.Load()):
                yield key, node
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_]):
                yield key, node


def string_reads(parsed: Sequence[File], fields: frozenset[str]) -> Iterator[Place]:
    """Reads of a document's field by name outside the room; those of `BY_KEY` are of something else."""
    for file in _outside(parsed, REPORT_ROOM):
        for key, node in keys_read(file.tree):
            if key in fields and not {file.path, f"{file.path}:{key}"} & BY_KEY.keys():
                yield Place(file.path, node.lineno, ast.unparse(node))


def pair_readers(parsed: Sequence[File]) -> Iterator[Place]:
    """Where DequantizeLinear is named, as a text or as `DEQUANTIZE`, but where pairs are read and made."""
    for file in _outside(parsed, PAIR_ROOM):
        for node in ast.walk(file.tree):
            match node:
                case ast.Constant(value="DequantizeLinear") | ast.Name(id="DEQUANTIZE"):
                    yield Place(file.path, node.lineno, "DequantizeLinear")


def carrier_setters(parsed: Sequence[File]) -> Iterator[Place]:
    """Assignments in pipeline/ to a field of a carrier, from outside or in its methods but `__init__`."""
    for file in parsed:
        if not file.path.startswith("pipeline/"):
            continue
        own = {
            id(inner)
            for cls in ast.walk(file.tree)
            if isinstance(cls, ast.ClassDef) and cls.name in CARRIERS
            for method in cls.body
            if isinstance(method, _FUNCTIONS) and method.name not in ("__init__", "__post_init__")
            for inner in ast.walk(method)
        }
        for node in ast.walk(file.tree):
            if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)):
                continue
            holder = ast.unparse(node.value).rpartition(".")[2].strip("_")
            if holder in _CARRIER_NAMES or (id(node) in own and holder == "self"):
                yield Place(file.path, node.lineno, ast.unparse(node))


def int8_grid(parsed: Sequence[File]) -> Iterator[Place]:
    """Lines that state int8 or its codes: 127, -128, `np.int8`, `TensorProto.INT8`, "int8"."""
    for file in _outside(parsed, FORMAT_ROOM):
        lines = {node.lineno: ast.unparse(node) for node in ast.walk(file.tree) if _states_int8(node)}
        yield from (Place(file.path, line, what) for line, what in sorted(lines.items()))


def _states_int8(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=127 | "int8"):
            return True
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=128)):
            return True
        case ast.Attribute(value=ast.Name(id="np"), attr="int8") | ast.Attribute(attr="INT8"):
            return True
    return False


def logical_lines(parsed: Sequence[File]) -> Iterator[Place]:
    """Statements' lines, however many they are broken into; docstrings, comments and blank lines are none."""
    for file in parsed:
        docs = {
            node.body[0].lineno
            for node in ast.walk(file.tree)
            if isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS))
            and ast.get_docstring(node) is not None
        }
        first = 0  # the line where the statement begins
        for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
            if token.type == tokenize.NEWLINE:
                if first not in docs:
                    yield Place(file.path, first, "")
                first = 0
            elif not first and token.type not in _NO_CODE:
                first = token.start[0]


_NO_CODE = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def long_functions(parsed: Sequence[File]) -> Iterator[Place]:
    """Functions of more than `LONG` lines, the docstring among them and decorators not."""
    for file, node in _functions(parsed):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > LONG:
            yield Place(file.path, node.lineno, f"{node.name}: {lines} lines")


def many_arguments(parsed: Sequence[File]) -> Iterator[Place]:
    """Functions of more than `MANY` parameters; `self` and `cls` are none."""
    for file, node in _functions(parsed):
        given = node.args
        names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        names += [one.arg for one in (given.vararg, given.kwarg) if one is not None]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > MANY:
            yield Place(file.path, node.lineno, f"{node.name}: {count} parameters")


def _functions(parsed: Sequence[File]) -> Iterator[tuple[File, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for file in parsed:
        for node in ast.walk(file.tree):
            if isinstance(node, _FUNCTIONS):
                yield file, node


def entered_lines(parsed: Sequence[File], entered: frozenset[tuple[str, int]]) -> Iterator[Place]:
    """Lines of the functions that a default run enters: what one reads to follow it.

    Args:
        parsed: the files.
        entered: path and first line of what was entered.
    """
    lines = set[Place]()
    for file, node in _functions(parsed):
        if (file.path, min([node.lineno, *(one.lineno for one in node.decorator_list)])) in entered:
            lines |= {Place(file.path, line, "") for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    yield from lines


_ALONE = "emit/measure.py"
"""What runs without onnxq, and so without its catalogue."""


def sentences(parsed: Sequence[File]) -> Iterator[Place]:
    """Texts of four words and more outside the rooms that word things.

    Left out are docstrings; patterns of `re`, and what has no blanks between its words; the help of options
    and arguments; and what errors say: what is raised, what a function holds that gives an error back, and
    what it is called with, each `hint`, and what is put under names that nothing but these reads.
    """
    told = _told(parsed)
    for file in _outside(parsed, WORDS_ROOM):
        for node in ast.walk(file.tree):
            text = "" if id(node) in told or file.path == _ALONE else _text(node)
            if min(len(text.split()), len(_WORD.findall(text))) >= SENTENCE and not _PATTERN.search(text):
                yield Place(file.path, node.lineno, text)  # type: ignore[attr-defined]


def _told(parsed: Sequence[File]) -> set[int]:
    """The ids of all nodes below docstrings, errors and helps, and of the parts of f-strings."""
    nodes = [one for file in parsed for one in _scoped(file)]
    errors = _errors([node for _, node in nodes if isinstance(node, ast.ClassDef)])
    functions = [node for _, node in nodes if isinstance(node, _FUNCTIONS)]
    makers = {"Option", "Argument", *errors, *(one.name for one in functions if _last(one.returns) in errors)}
    told = {id(part) for _, node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}

    def tell(node: ast.AST) -> None:
        told.update(id(inner) for inner in ast.walk(node))

    for _, node in nodes:
        match node:
            case ast.Call() if _last(node.func) in makers:
                tell(node)
            case ast.FunctionDef() if _last(node.returns) in errors:
                tell(node)
            case ast.keyword() if node.arg in _SAID_BY:
                tell(node)
            case ast.Raise() | ast.Expr(value=ast.Constant()):
                tell(node)

    put = [(node, {(scope, name) for name in _put(node)}) for scope, node in nodes]
    put = [(node, names) for node, names in put if names]
    read = _reads(nodes, {name for _, names in put for name in names})
    while True:
        others = {name for name, one in read if one not in told}
        only = {name for name, _ in read} - others
        more = [node for node, names in put if names <= only and id(node) not in told]
        if not more:
            return told
        for node in more:
            tell(node)


def _scoped(file: File) -> Iterator[tuple[str, ast.AST]]:
    """Each node, and where its names are: the function it is in, the outermost one, or the file."""
    left: list[tuple[str, ast.AST]] = [(file.path, file.tree)]
    while left:
        scope, node = left.pop()
        yield scope, node
        if scope == file.path and isinstance(node, _FUNCTIONS):
            scope = f"{scope}:{node.lineno}"
        left += ((scope, child) for child in ast.iter_child_nodes(node))


def _put(node: ast.AST) -> list[str]:
    """The names that a statement puts a value under; none where it also puts it elsewhere."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)]) | ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            targets = [target]
        case _:
            return []
    names = [one.id for one in targets if isinstance(one, ast.Name)]
    return names if len(names) == len(targets) else []


def _reads(
    nodes: Iterable[tuple[str, ast.AST]], put: Collection[tuple[str, str]]
) -> list[tuple[tuple[str, str], int]]:
    """What is read of what is put, with the ids of the nodes that read it.

    What is no name of its function or file is one of any file: imported, or of a class.
    """
    of_files: dict[str, list[tuple[str, str]]] = {}
    for scope, name in put:
        if ":" not in scope:
            of_files.setdefault(name, []).append((scope, name))
    found = []
    for scope, node in nodes:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            name = _last(node)
            near = ((scope, name), (scope.partition(":")[0], name)) if isinstance(node, ast.Name) else ()
            meant = next(([one] for one in near if one in put), of_files.get(name, []))
            found += [(one, id(node)) for one in meant]
    return found


def _errors(classes: Iterable[ast.ClassDef]) -> set[str]:
    """The classes of errors, by what they derive from, and what a function is that never comes back."""
    bases = {node.name: {_last(base) for base in node.bases} for node in classes}
    kinds = {name for name, one in vars(builtins).items() if isinstance(one, type)}
    found = {name for name in kinds if issubclass(getattr(builtins, name), BaseException)}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return {*found, "NoReturn"}


def _last(node: ast.AST | None) -> str:
    """The last part of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name
    return ""


def _text(node: ast.AST) -> str:
    """What a literal says, without what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values))
    return ""


def classes_with_sentences(parsed: Sequence[File]) -> Iterator[Place]:
    """Classes that have a field of words for users."""
    for file in _outside(parsed, WORDS_ROOM):
        for node in ast.walk(file.tree):
            fields = node.body if isinstance(node, ast.ClassDef) else ()
            named = [one.target for one in fields if isinstance(one, ast.AnnAssign)]
            if any(isinstance(name, ast.Name) and name.id in _FIELDS_OF_WORDS for name in named):
                yield Place(file.path, node.lineno, node.name)  # type: ignore[attr-defined]


def late_fields(parsed: Sequence[File]) -> Iterator[Place]:
    """Fields that methods beside `__init__` assign, each once: what changes in an object."""
    for file in parsed:
        for cls in ast.walk(file.tree):
            if not isinstance(cls, ast.ClassDef):
                continue
            methods = [one for one in cls.body if isinstance(one, _FUNCTIONS)]
            stored = {
                node.attr: node.lineno
                for method in methods
                if method.name not in ("__init__", "__post_init__")
                for node in ast.walk(method)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                if ast.unparse(node.value) == "self"
            }
            yield from (Place(file.path, line, f"{cls.name}.{name}") for name, line in stored.items())


def written_words(tree: Path) -> Iterator[Place]:
    """The words of README, CONTRIBUTING and `docs`, but for what is made of the code."""
    for page in (tree / "README.md", tree / "CONTRIBUTING.md", *(tree / "docs").rglob("*.md")):
        path = page.relative_to(tree).as_posix()
        if page.is_file() and not path.startswith("docs/reference/"):
            for line, text in enumerate(page.read_text("utf-8").splitlines(), 1):
                yield from (Place(f"../{path}", line, f"{at} {word}") for at, word in enumerate(text.split()))


def modules(parsed: Sequence[File]) -> Iterator[Place]:
    """The files."""
    yield from (Place(file.path, 1, "") for file in parsed)


def _outside(parsed: Sequence[File], room: tuple[str, ...]) -> list[File]:
    return [file for file in parsed if not file.path.startswith(room)]


def entered(tree: Path) -> frozenset[tuple[str, int]]:
    """What a default run of a checkout enters: path below its package, and line. It takes seconds.

    Raises:
        subprocess.CalledProcessError: it does not end well.
    """
    script = Path(__file__).with_name("entered.py")
    others = {name: value for name, value in os.environ.items() if not name.startswith(("ONNXQ_", "PYTEST_"))}
    environment = {**others, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, "-P", script], capture_output=True, text=True, check=True, env=environment
    )
    places = (line.rsplit(" ", 1) for line in done.stdout.splitlines() if line.startswith("onnxq/"))
    return frozenset((path.removeprefix("onnxq/"), int(line)) for path, line in places)


# --- printing -------------------------------------------------------------------------------------


def counted(tree: Path) -> dict[str, list[Place]]:
    """The places of each count, by its name."""
    parsed, fields = files(tree), document_fields(tree)
    counts: dict[str, Count] = {
        "reads": lambda parsed: string_reads(parsed, fields),
        **STATIC,
        "words": lambda _: written_words(tree),
        "entered": lambda parsed: entered_lines(parsed, entered(tree)),
    }
    return {name: sorted(count(parsed)) for name, count in counts.items()}


Count = Callable[[Sequence[File]], Iterator[Place]]

STATIC: Mapping[str, Count] = {
    "pairs": pair_readers,
    "setters": carrier_setters,
    "int8": int8_grid,
    "long": long_functions,
    "arguments": many_arguments,
    "lines": logical_lines,
    "files": modules,
    "sentences": sentences,
    "worded": classes_with_sentences,
    "late": late_fields,
}
"""The counts that take nothing but the files."""

TITLES = {
    "reads": "string reads of documents outside their room",
    "pairs": "places that name DequantizeLinear",
    "setters": "setters of carriers in pipeline/",
    "int8": "places of int8's grid",
    "long": f"functions over {LONG} lines",
    "arguments": f"functions with over {MANY} arguments",
    "lines": "logical lines",
    "files": "files",
    "sentences": f"sentences of {SENTENCE} words and more",
    "worded": "classes that hold a sentence",
    "late": "fields assigned outside __init__",
    "words": "words of pages that are written by hand",
    "entered": "lines of functions that a default run enters",
}


def package(path: str) -> str:
    """The part of onnxq that a file belongs to."""
    parts = path.split("/")
    if parts[:2] in (["cli", "pages"], ["analysis", "diff"]):
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "(root)"


class Row(NamedTuple):
    """One count: how many places in how many files, and how many by part, the most first."""

    places: int
    files: int
    parts: dict[str, int]


def summary(found: dict[str, list[Place]]) -> dict[str, Row]:
    """The rows of the table, by the counts' names."""
    return {
        name: Row(
            len(places),
            len({place.path for place in places}),
            dict(Counter(package(place.path) for place in places).most_common()),
        )
        for name, places in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counts")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="the checkout that is counted")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument(
        "--places", choices=[*TITLES], metavar="COUNT", help=f"list them: {', '.join(TITLES)}"
    )
    given = parser.parse_args()
    if not (given.tree / "onnxq/__init__.py").is_file():
        parser.error(f"--tree {given.tree}: no checkout of onnxq")
    found = counted(given.tree)
    if given.places:
        print("\n".join(map(str, found[given.places])))
    elif given.json:
        print(json.dumps({name: row._asdict() for name, row in summary(found).items()}, indent=1))
    else:
        print(f"{'':<46} places  files")
        for name, row in summary(found).items():
            most = ", ".join(f"{part} {count}" for part, count in list(row.parts.items())[:5])
            print(f"{TITLES[name]:<46} {row.places:>6} {row.files:>6}  {most}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
