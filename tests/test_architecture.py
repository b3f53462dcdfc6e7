"""The layers: who may import whom, and which third-party packages where."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from trees import FILES, PACKAGE, ROOT, RULES, TREES

from benchmarks import counts
from benchmarks.counts import BY_KEY, REPORT_ROOM, keys_read
from onnxq.options.grouped import KEYWORDS, options_of
from onnxq.options.option import read_options
from onnxq.options.step import steps
from onnxq.options.verbs import VERBS
from onnxq.pipeline.searches import COMPILED, PLANNED, WRITTEN
from onnxq.targets import NAMES

# From below: a part imports those above it in this list, and itself.
LAYERS = (
    {"base"},
    {"targets"},
    {"options"},
    {"formats", "judge"},
    {"graph"},
    {"run"},
    {"rule"},
    {"data", "compiled"},
    {"rewrite", "calib", "body", "task"},
    {"quant"},
    {"methods", "noise"},
    {"repair"},
    {"documents"},
    {"analysis", "checks"},
    {"advice"},
    {"emit"},
    {"page"},
    {"pipeline"},
    {"inspection"},
    {"cli"},
    {"__init__", "__main__"},
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
MOST_ROOMS = 27

# Third-party packages, and the parts of onnxq that may import them.
EVERYWHERE_FROM_GRAPH = {
    "formats",
    "graph",
    "run",
    "rule",
    "data",
    "compiled",
    "rewrite",
    "calib",
    "quant",
    "methods",
    "body",
    "task",
    "noise",
    "repair",
    "analysis",
    "checks",
    "documents",
    "emit",
    "pipeline",
    "inspection",
}
FENCES = {
    "onnx_graphsurgeon": {"graph"},
    "onnxruntime": {"run"},
    "tensorrt_rtx": {"run"},
    "polygraphy": {"run"},
    "PIL": {"data"},
    "fsspec": {"base"},
    "ray": {"base"},
    "pyarrow": {"data"},
    "av": {"data"},
    "typer": {"cli"},
    "click": {"cli"},
    "rich": {"cli"},
    "onnx": EVERYWHERE_FROM_GRAPH,
    "numpy": {*EVERYWHERE_FROM_GRAPH, "judge", "cli"},
    "ml_dtypes": EVERYWHERE_FROM_GRAPH,
    "google": {"graph"},
    "threadpoolctl": {"run"},
    "tomli_w": {"quant"},
    "pydantic": {"emit"},
    "jinja2": {"page"},
    "markupsafe": {"page"},
}
HEAVY = (
    "onnx",
    "onnxruntime",
    "onnx_graphsurgeon",
    "numpy",
    "polygraphy",
    "tensorrt_rtx",
    "PIL",
    "jinja2",
    "pydantic",
)


@functools.cache
def imports(path: Path) -> list[tuple[str, ast.AST]]:
    """The modules that a file imports, wherever in it."""
    found: list[tuple[str, ast.AST]] = []
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{place(path, node)}: a relative import"
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found += [(name if name in MODULES else str(node.module), node) for name in names]
    return found


def part_of(path: Path) -> str:
    """The part of onnxq that a file belongs to: its package, or its own name."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


MODULES = {
    ".".join(path.with_suffix("").relative_to(ROOT).parts).removesuffix(".__init__"): path for path in FILES
}


@pytest.fixture(autouse=True, scope="module")
def read_once() -> None:
    """All tests share the time that it takes."""
    for path in (*FILES, *RULES):
        imports(path)


def test_there_is_something_to_check() -> None:
    assert len(FILES) > 30
    assert len(RULES) >= 10
    assert {part_of(path) for path in FILES} <= set(RANK), "a new part needs a layer"


def test_imports_point_to_lower_layers() -> None:
    found = []
    for path in FILES:
        part = part_of(path)
        for module, node in imports(path):
            names = module.split(".")
            if names[0] != "onnxq" or (len(names) == 1 and part in ("cli", "__main__")):
                continue
            other = names[1] if len(names) > 1 else "__init__"
            if part not in ("__init__", other) and not allowed(part, other):
                found.append(f"{place(path, node)}: {part} imports {module}")
    assert not found, "\n".join(found)


def allowed(part: str, other: str) -> bool:
    """Whether a part of onnxq may import another one."""
    return RANK[other] < RANK[part]


def test_the_rooms_can_be_counted() -> None:
    rooms = {part_of(path) for path in FILES if path.parent != PACKAGE}
    assert len(rooms) <= MOST_ROOMS
    assert rooms <= set(RANK)


def test_third_party_packages_stay_behind_their_fences() -> None:
    found = []
    for path in FILES:
        for module, node in imports(path):
            top = module.split(".")[0]
            if top in sys.stdlib_module_names or top == "onnxq":
                continue
            if top not in FENCES:
                found.append(f"{place(path, node)}: {top} is a new dependency")
            elif part_of(path) not in FENCES[top]:
                found.append(f"{place(path, node)}: {part_of(path)} imports {top}")
    assert not found, "\n".join(found)


def test_temporary_folders_go_with_the_process() -> None:
    """Those of `interrupts.Folder`; a fault's reproducer is to stay."""
    found = [
        f"{place(path, node)}: {node.attr}"
        for path in FILES
        if path.name not in ("fault.py", "interrupts.py", "reproducer.py")
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Attribute) and node.attr in ("TemporaryDirectory", "mkdtemp", "mkstemp")
    ]
    assert not found, "\n".join(found)


def test_no_modules_import_each_other() -> None:
    """There is no circle of imports, those inside of functions and those for types alone included."""
    wanted: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        wanted[name] = {module for module, _ in imports(path) if module in MODULES}
    while ready := {name for name in wanted if not wanted[name] & set(wanted)}:
        for name in ready:
            del wanted[name]
    assert {name: sorted(found & set(wanted)) for name, found in wanted.items()} == {}


def test_one_name_is_one_thing() -> None:
    """No two public classes of the package have the same name."""
    places: dict[str, list[str]] = {}
    for path in FILES:
        names = [node.name for node in ast.walk(TREES[path]) if isinstance(node, ast.ClassDef)]
        for name in names:
            if not name.startswith("_"):
                places.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_no_code_asks_for_the_name_of_a_target() -> None:
    """What one is like stands in its table, which may be the user's; `targets/` names those there are."""
    found = [
        f"{place(path, node)}: {node.value!r}"
        for path in [*PACKAGE.rglob("*.py"), *RULES]
        if path.parent.name != "targets"
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Constant)
        and node.value in NAMES
        and node.value != "tensorrt-rtx"  # a package
    ]
    assert not found, "\n".join(found)


def test_reads_by_key_are_found() -> None:
    text = 'a["b"]["c"] = d.get("e", f["g"])[h] + i.get(j)["k"] + l[0]; m["n"] += 1; "q" in r'
    assert sorted(key for key, _ in keys_read(ast.parse(text))) == ["b", "e", "g", "k"]


def test_documents_are_read_by_attributes() -> None:
    """Which mypy knows; what else is read by a text is named."""
    read: dict[str, str] = {}
    for path in FILES:
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(REPORT_ROOM):
            for key, node in keys_read(TREES[path]):
                read[name if name in BY_KEY else f"{name}:{key}"] = place(path, node)
    assert {what: where for what, where in read.items() if what not in BY_KEY} == {}
    assert set(BY_KEY) <= set(read), "nothing reads that any more"
    templates = sorted((PACKAGE / "page" / "templates").glob("*.j2"))
    assert templates
    assert [path.name for path in templates if re.search(r"\[['\"]|\.get\(", path.read_text("utf-8"))] == []


def test_pages_say_what_they_show() -> None:
    """A value of any type could be a plain document, of which mypy knows nothing."""
    found = [
        place(path, node)
        for path in (PACKAGE / "cli" / "pages").glob("*.py")
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Name) and node.id == "Any"
    ]
    assert found == []


# Who names DequantizeLinear, and for what else than to follow a tensor to its pair.
NAMES_DEQUANTIZE = {
    "graph/pairs.py": "reads pairs, for all others",
    "quant/insert.py": "writes them",
    "analysis/memory.py": "which tensors an engine holds as codes",
    "analysis/tensor_pass.py": "which tensors of a file are written by something else",
    "quant/slices_apart.py": "whether all that reads codes dequantizes them",
    "repair/stream.py": "what is computed anew wherever it is read, in a model that changes on the way",
    "cli/pages/model.py": "the word that is printed",
}


def test_pairs_are_read_in_one_place() -> None:
    named = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in ast.walk(TREES[path])
        if (isinstance(node, ast.Constant) and node.value == "DequantizeLinear")
        or (isinstance(node, ast.Name) and node.id == "DEQUANTIZE")
    }
    assert named == set(NAMES_DEQUANTIZE)


# Who states int8, or its codes, beside its format; at most `INT8_PLACES` lines in all.
STATES_INT8 = {
    "options/settings.py": "a choice of loud layers, and its default; a number format",
    "cli/pages/plan.py": "that choice",
    "inspection/description.py": "a title of a column",
    "documents/reading.py": "a field of older documents",
    "quant/scale_form.py": "the code of a reason",
    "compiled/exported.py": "the compiler's types, each with its word in formats of tensors",
    "compiled/kernels.py": "the compiler's types, each with its bits",
    "run/engine_log.py": "the compiler's types, each with its word in logs",
    "rewrite/mining.py": "ONNX's types, each with where casts are not exact any more",
}
INT8_PLACES = 12


def test_formats_say_what_int8_is() -> None:
    places = list(counts.int8_grid(counts.files(ROOT)))
    assert {place.path for place in places} == set(STATES_INT8)
    assert len(places) <= INT8_PLACES, "\n".join(map(str, places))


# Who takes logarithms of ten besides `judge/sqnr.py`.
TAKES_LOG10 = {"emit/measure.py": "it runs on the device, without onnxq"}


def test_decibels_are_computed_in_one_place() -> None:
    """An SQNR, and every other ratio of powers in dB, is of `judge/sqnr.py`; and so is the way back."""
    places = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in ast.walk(TREES[path])
        if (isinstance(node, ast.Attribute) and node.attr == "log10")
        or (isinstance(node, ast.Name) and node.id == "log10")
    }
    assert places - {"judge/sqnr.py"} == set(TAKES_LOG10)


def test_samples_that_verify_are_asked_for_by_who_verifies() -> None:
    """Besides who hands them out: a step that decides has no business with them."""
    asks = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".held_out")
    }
    assert asks == {"pipeline/sampling.py", "pipeline/verifying.py", "pipeline/layer_errors.py"}


def test_candidates_are_compared_in_one_way() -> None:
    """Each policy stands in `judge/policies.py`, with why; nobody else states one."""
    states = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Policy"
    }
    assert states == {"judge/policies.py"}


def test_intervals_are_computed_in_one_place() -> None:
    """Where figures lie with other samples is said by `judge/intervals.py`, for all of them."""
    states = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Interval"
    }
    assert states == {"judge/intervals.py"}


def test_layers_are_left_in_float_in_one_way() -> None:
    """`Draft.in_float` takes along all that a node in float leaves without a purpose; others ask it."""
    asking = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.ImportFrom) and any(alias.name == "left_float" for alias in node.names)
    }
    assert asking == {"quant/draft/draft.py"}


@pytest.mark.parametrize(
    "name",
    [
        "repair/step_search",
        "repair/workload",
        "repair/turn",
        "repair/allowed",
        "quant/draft/edit_kinds",
        "pipeline/repair_bench",
        "pipeline/run",
    ],
)
def test_what_drives_repair_names_no_step(name: str) -> None:
    """What a step needs stands in its file: no other one says, imports or is called like a step."""
    path, names = PACKAGE / f"{name}.py", {one for one, step in steps().items() if step.ours}
    found = [
        f"{place(path, node)}: {value}"
        for node in ast.walk(TREES[path])
        for field in ("value", "id", "attr", "name", "arg", "module")
        for value in [getattr(node, field, None)]
        if isinstance(value, str) and (value in names or value.rpartition(".")[2] in names)
    ]
    assert names
    assert not found, "\n".join(found)


def test_what_is_handed_on_never_changes() -> None:
    """A step gives another draft, another model or another job; of samples it is noted what they did."""
    places = list(counts.carrier_setters(counts.files(ROOT)))
    assert {place.path for place in places} <= {"pipeline/sampling.py"}, places


def test_a_rule_file_imports_the_facade_only() -> None:
    found = []
    for path in RULES:
        inner = {
            id(node)
            for function in ast.walk(TREES[path])
            if isinstance(function, ast.FunctionDef) and function.name.startswith("_")
            for node in ast.walk(function)
        }
        for module, node in imports(path):
            facade = {"onnxq.rule", "numpy", "ml_dtypes", "__future__", "collections.abc", "dataclasses"}
            facade |= {"functools", "math", "typing"} | {helper.stem for helper in path.parent.glob("_*.py")}
            if id(node) in inner:  # a function that makes an example's model
                facade |= {"onnx", "onnx.parser", "onnx.helper", "onnx.numpy_helper"}
            if module not in facade:
                found.append(f"{place(path, node)}: imports {module}")
    assert not found, "\n".join(found)


def test_import_is_light() -> None:
    code = (
        "import sys, onnxq; assert onnxq.__version__; assert onnxq.UserError; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['onnxq', '--help']\n"
        "from onnxq.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('HEAVY', [n for n in ('onnx', 'onnxruntime', 'onnx_graphsurgeon') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "HEAVY []" in done.stdout


@pytest.mark.parametrize(
    ("code", "unneeded"),
    [
        ("import onnxq; onnxq.sanitize", "onnxq.pipeline.quantizing onnxq.calib.collect onnxq.repair.fit"),
        ("import onnxq; onnxq.check", "onnxq.pipeline.quantizing onnxq.repair.fit"),
        ("import onnxq.run.trt_child", "onnxq.options.settings numpy onnx"),
        ("import sys; sys.argv[1:] = ['check', '-h']; from onnxq.cli.app import main; main()",
         "onnxq.cli.quantize onnxq.cli.sanitize"),
    ],
    ids=["sanitize", "check", "the compiler's process", "the command of one verb"],
)  # fmt: skip
def test_nothing_is_loaded_for_others(code: str, unneeded: str) -> None:
    """A verb loads what it needs; so does the program that asks the compiler, which a run starts twice."""
    lines = f"import atexit, sys\natexit.register(lambda: print('LOADED', *sys.modules))\n{code}"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert "onnxq" in loaded
    assert not set(loaded) & set(unneeded.split())


def test_checks_are_in_one_registry() -> None:
    """A check is made in its file and nowhere else: `@check`, or `stated` for one that another one tells."""
    found = [
        place(path, node)
        for path in FILES
        if path.parent != PACKAGE / "checks" / "each" and path != PACKAGE / "checks" / "api.py"
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (node.func.id == "Check" or (node.func.id in ("check", "stated") and part_of(path) == "checks"))
        and any(isinstance(one, ast.Constant) for one in node.args)
    ]
    assert not found, "\n".join(found)


def test_a_verb_is_declared_once() -> None:
    """What a verb takes stands in `options/verbs.py`: nobody else leaves options out or names its groups."""
    found, takes = [], []
    for path in FILES:
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("read_options"):
                if len(node.args) + len(node.keywords) > 1 and path.name != "verbs.py":
                    found.append(f"{place(path, node)}: {ast.unparse(node)}")
            elif isinstance(node, ast.FunctionDef) and is_called_with_options(node):
                takes.append(node.name)
                groups = options_of(node.name)
                known = {KEYWORDS[group] for group in groups} | {
                    one for names in groups.values() for one in names
                }
                own = {one.arg for one in (*node.args.args, *node.args.kwonlyargs)}
                found += [f"{place(path, node)}: {node.name}({name})" for name in sorted(known & own)]
                if [ast.unparse(one) for one in node.decorator_list] != ["takes_options"]:
                    found.append(f"{place(path, node)}: {node.name} says itself which it takes")
    assert found == []
    assert {"quantize", "look", "split"} <= set(takes)


def is_called_with_options(node: ast.FunctionDef) -> bool:
    return node.args.kwarg is not None and "Unpack[" in ast.unparse(node.args.kwarg)


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_what_it_says(name: str) -> None:
    """No group twice, nothing left out that no group has, and a command."""
    verb = VERBS[name]
    assert len(set(verb.groups)) == len(verb.groups)
    assert set(verb.without) <= {one for group in verb.groups for one in read_options(group)}
    assert len(set(verb.without)) == len(verb.without)
    first, *_, last = name.split() * 2
    body = TREES[PACKAGE / "cli" / f"{first}.py"].body
    assert last in [node.name for node in body if isinstance(node, ast.FunctionDef)]


def test_checks_are_worded_in_their_files() -> None:
    """Who asks checks runs them and joins what they find: what is said is `onnxq/checks/`'s alone."""
    found = [
        place(path, node)
        for path in FILES
        if part_of(path) != "checks"
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Said", "Finding", "finding")
    ]
    assert not found, "\n".join(found)


EDITING = {
    "graph": "it is where models are read, and what views are of",
    "body/convert.py": "it gives nodes and tensors of all graphs another type",
    "rewrite/engine.py": "it goes through a graph while rules change it",
}
"""Who looks at the graphs that onnx-graphsurgeon holds; all others have `Model.nodes` and other views."""

WALKING = {
    "graph": "it is where models are read and written",
    "run": "sessions are of protos",
    "calib/probes.py": "statistics are nodes in the proto that runs",
    "rewrite": "a proof runs the small protos around a change",
    "repair/stream.py": "a stage of a model runs alone",
    "body/emulate.py": "it writes a model that runs",
    "analysis/stages.py": "it takes parts out of a model that runs",
    "analysis/parts.py": "likewise",
    "analysis/memory.py": "the order of the nodes in the file says what is alive",
    "inspection/pieces.py": "the pieces of a model are protos",
    "pipeline/reporting.py": "it reads codes of the file that is written",
    "pipeline/verdict.py": "it compares two models that are compiled",
    "quant/grid.py": "pairs are tried on a part of a model, which runs",
    "quant/insert.py": "the model without pairs is at hand as it runs",
    "quant/measuring.py": "likewise",
}
"""Who looks through the nodes of a ModelProto."""


def is_read_as_it_is(node: ast.AST) -> bool:
    """Whether a graph of onnx-graphsurgeon is looked at: `model.graph.nodes`, `model.graphs()`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "graphs"
    if not isinstance(node, ast.Attribute) or node.attr not in ("inputs", "outputs", "nodes", "tensors"):
        return False
    return ast.unparse(node.value).split(".")[-1] == "graph"


def is_walked(node: ast.AST) -> bool:
    """Whether something goes through the nodes of a proto, or asks which node makes a tensor of it."""
    sources: list[ast.expr] = []
    if isinstance(node, (ast.For, ast.comprehension)):
        sources = [node.iter]
    elif isinstance(node, ast.Call):
        sources = node.args
    return any(ast.unparse(source).endswith("graph.node") for source in sources)


@pytest.mark.parametrize(("is_used", "allowed"), [(is_read_as_it_is, EDITING), (is_walked, WALKING)])
def test_graphs_are_read_as_views(is_used: Callable[[ast.AST], bool], allowed: dict[str, str]) -> None:
    """By `Model.nodes`, `inputs`, `outputs`, `tensors` and `every_node`, which have types."""
    using: dict[str, list[str]] = {}
    for path in FILES:
        file = path.relative_to(PACKAGE).as_posix()
        found = [place(path, node) for node in ast.walk(TREES[path]) if is_used(node)]
        if found:
            using.setdefault(file if file in allowed else part_of(path), []).extend(found)
    assert {who: places for who, places in using.items() if who not in allowed} == {}
    assert allowed.keys() - using.keys() == set(), "these need not be allowed"


def page_of(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize(("name", "files"), [("architecture", 40), ("internals", 100)])
def test_pages_name_what_is_there(name: str, files: int) -> None:
    """Each file that a page names is a file of the package, or lies where it says."""
    places = {path.relative_to(PACKAGE).as_posix() for path in FILES}
    known = places | {path.name for path in FILES}
    named = set(re.findall(r"`([\w/]+\.py)`", page_of(name)))
    assert len(named) > files
    assert sorted(name for name in named if name not in known and not (ROOT / name).is_file()) == []


def test_the_architecture_is_three_screens() -> None:
    lines = page_of("architecture").splitlines()
    assert len(lines) <= 170
    assert [line for line in lines if len(line) > 110] == []


def test_the_architecture_has_the_rooms_in_their_order() -> None:
    table = page_of("architecture").partition("| room | what is there |")[2].partition("\n\n")[0]
    rooms = [set(re.findall(r"`(\w+)`", line.split("|")[1])) for line in table.splitlines()[2:]]
    assert rooms == [parts for parts in LAYERS if "__init__" not in parts]


def test_the_architecture_has_the_searches_in_their_order() -> None:
    told = re.search(r"`__init__\.py`: ([\w,; ]+)\.", " ".join(page_of("architecture").split()))
    assert told is not None
    names = [search.name for search in (*PLANNED, *WRITTEN, *COMPILED)]
    assert re.findall(r"\w+", told[1].replace("then", "")) == names
