"""The releases of a parser's git: what they import, and where a table says otherwise."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.parser_sources import new_words, otherwise, releases
from onnxq.targets import load_target

VERSION = "set(ONNX2TRT_MAJOR {})\nset(ONNX2TRT_MINOR {})\n"


def commit(folder: Path, minor: int, files: dict[str, str]) -> None:
    for name, text in {"CMakeLists.txt": VERSION.format(10, minor), **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
    subprocess.run(["git", "-C", folder, *who, "commit", "-qm", "x"], check=True)


def imported(*ops: str) -> str:
    return "".join(f"DEFINE_BUILTIN_OP_IMPORTER({op})\n{{\n}}\n" for op in ops)


def test_a_release_takes_what_it_imports_but_for_what_its_checkers_refuse(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    table = "| {} | {} | FP32 | {}\n"
    commit(tmp_path, 2, {"onnxOpImporters.cpp": imported("Relu", "NotOfOnnx")})
    commit(
        tmp_path, 3,
        {
            "onnxOpImporters.cpp": imported("Relu", "Celu", "Unique"),
            "onnxOpCheckers.cpp": "DEFINE_OP_CHECKER(Celu)\n{\n    STATIC_CHECK(false, x);\n}\n",
            "docs/operators.md": table.format("Relu", "Y", "2D only") + table.format("Unique", "N", ""),
        },
    )  # fmt: skip
    commit(tmp_path, 4, {"docs/operators.md": table.format("Relu", "Y", "any rank")})
    found = {one.version: one for one in releases(str(tmp_path))}
    assert [*found] == ["10.2", "10.3", "10.4"]
    assert found["10.2"].imported == {"Relu"}
    assert found["10.3"].imported == {"Relu", "Unique"}
    assert found["10.3"].documented == {"Relu": (True, "FP32; 2D only"), "Unique": (False, "FP32; ")}
    said = otherwise(found["10.3"])
    assert said[0] == "Unique: imported, the table lacks it"
    assert "Celu: not imported, the table has it" in said
    assert not any(line.startswith(("Relu", "Det")) for line in said)
    assert "Det" in load_target("10.3").unsupported
    assert [*new_words(found["10.3"], found["10.4"])] == ["Relu: was FP32; 2D only; is FP32; any rank"]
