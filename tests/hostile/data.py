"""Data, scripts and settings that nobody means, beside a good model."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from .models import EITHER, REFUSED, Hostile, layer, saved

LINE = "quantize net.onnx --calib {} --no-engine --method minmax --repair none"


def beside(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """The good model, and what `make` adds to the folder."""

    def write(folder: Path) -> None:
        saved(layer())(folder)
        make(folder)

    return write


def npy(folder: Path, data: bytes) -> None:
    (folder / "data.npy").write_bytes(data)


def header(text: str, tail: bytes = b"") -> bytes:
    body = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body + tail


def array(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def npz(folder: Path, *, method: int = zipfile.ZIP_STORED, spoil: int = 0, **members: bytes) -> None:
    with zipfile.ZipFile(folder / "data.npz", "w", method) as archive:
        for name, held in members.items():
            archive.writestr(f"{name}.npy", held)
    if spoil:
        data = bytearray((folder / "data.npz").read_bytes())
        for place in range(60, min(60 + spoil, len(data) - 120)):
            data[place] ^= 0x5A
        (folder / "data.npz").write_bytes(bytes(data))


def script(body: str) -> Callable[[Path], object]:
    return beside(lambda folder: (folder / "load.py").write_text(f"import numpy as np\n{body}\n"))


def data() -> dict[str, Hostile]:
    """All of them, by name."""
    good = np.zeros((8, 16), np.float32)
    found: list[Hostile] = []

    def add(
        name: str, make: Callable[[Path], object], given: str = "data.npy", codes: tuple[int, ...] = REFUSED, says: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        found.append(Hostile(name, beside(make), codes, says, (LINE.format(given),)))

    for name, kind in {"void": "V8", "record": "[('a', '<f4')]", "object": "O", "text": "U4", "bytes": "S4", "time": "M8[s]",
                       "complex": "c8", "void0": "V0"}.items():  # fmt: skip
        values = np.zeros((8, 16), np.dtype(eval(kind) if kind[0] == "[" else kind))
        if kind != "O":
            add(f"npy-{name}", lambda folder, values=values: npy(folder, array(values)), says=("data.npy",))
    for name, text in {
        "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }",
        "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 16), }",
        "digits": "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ", 16), }",
        "rank": "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1, " * 100 + "), }",
        "code": "__import__('os').system('touch ran')",
        "object": "{'descr': '|O', 'fortran_order': False, 'shape': (8,), }",
        "no-key": "{'descr': '<f4'}",
        "deep": "(" * 5000 + ")" * 5000,
        "not-text": "\xff\xfe",
        "float-shape": "{'descr': '<f4', 'fortran_order': False, 'shape': (8.0, 16), }",
        "odd-type": "{'descr': 'q9', 'fortran_order': False, 'shape': (8, 16), }",
        "nested-type": "{'descr': " + "[('a', " * 60 + "'<f4'" + ")]" * 60 + ", 'fortran_order': False, 'shape': (8, 16), }",
        "short": "{'descr': '<f4', 'fortran_order': False, 'shape': (8, 16), }",
        "empty-shape": "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
    }.items():  # fmt: skip
        add(
            f"npy-header-{name}",
            lambda folder, text=text: npy(folder, header(text, bytes(64))),
            says=("data.npy", "zero samples"),
        )
    for name, held in {"empty": b"", "cut": array(good)[:100], "magic": b"\x93NUMPY", "version": b"\x93NUMPY\x09\x00" + bytes(99),
                       "long-header": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{}", "zeros": bytes(500)}.items():  # fmt: skip
        add(f"npy-{name}", lambda folder, held=held: npy(folder, held), says=("data.npy",))
    for name, method in {"stored": 0, "deflated": 8, "bzip2": 12, "lzma": 14}.items():
        noise = array(np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32))
        add(f"npz-{name}", lambda folder, m=method: npz(folder, method=m, x=noise), "data.npz", codes=(0, 1))
        for spoil in (4, 40, 400):
            add(f"npz-{name}-spoiled-{spoil}", lambda folder, m=method, s=spoil: npz(folder, method=m, spoil=s, x=noise),
                "data.npz", says=("data.npz",))  # fmt: skip
    add("npz-empty", lambda folder: npz(folder), "data.npz", says=("data.npz",))
    add("npz-bomb", lambda folder: npz(folder, method=8, x=header(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (500000, 16), }", bytes(32_000_000))),
        "data.npz", codes=EITHER)  # fmt: skip
    add(
        "npz-object",
        lambda folder: np.savez(folder / "data.npz", x=np.array([{}], object)),
        "data.npz",
        says=("data.npz",),
    )
    add(
        "npz-void",
        lambda folder: npz(folder, x=array(np.zeros((8, 16), "V4"))),
        "data.npz",
        says=("data.npz",),
    )
    add(
        "npz-names",
        lambda folder: npz(folder, **{"../x": array(good), "x\ny": array(good)}),
        "data.npz",
        says=("data.npz",),
    )
    add("npz-not-arrays", lambda folder: npz(folder, x=b"hello"), "data.npz", says=("data.npz",))

    def many(folder: Path) -> None:
        with zipfile.ZipFile(folder / "data.npz", "w") as archive:
            for number in range(20_000):
                archive.writestr(f"a{number}.npy", array(good[:1]))

    add("npz-20000-members", many, "data.npz", says=("data.npz",))

    def deep(folder: Path) -> None:
        before = os.getcwd()
        try:
            os.chdir(folder)
            for _ in range(1000):
                os.mkdir("d")
                os.chdir("d")
            np.save("x.npy", good)
        finally:
            os.chdir(before)

    add("folder-1000-deep", deep, "d", codes=EITHER)

    def calib(make: Callable[[Path], object]) -> Callable[[Path], object]:
        def write(folder: Path) -> None:
            (folder / "calib").mkdir()
            for number in range(8):
                np.save(folder / "calib" / f"{number}.npy", good[number])
            make(folder / "calib")

        return write

    add("folder-with-pipe", calib(lambda folder: os.mkfifo(folder / "9.npy")), "calib", codes=EITHER)
    add(
        "folder-of-pipes",
        lambda folder: ((folder / "calib").mkdir(), os.mkfifo(folder / "calib/9.npy")),
        "calib",
    )
    add(
        "folder-with-link-loop",
        calib(lambda folder: (folder / "9.npy").symlink_to("9.npy")),
        "calib",
        codes=EITHER,
    )
    add("folder-with-itself", calib(lambda folder: (folder / "again").symlink_to(".")), "calib", codes=EITHER)
    add(
        "folder-with-device",
        calib(lambda folder: (folder / "9.npy").symlink_to("/dev/zero")),
        "calib",
        codes=EITHER,
    )
    add("folder-with-odd-names", calib(lambda folder: np.save(os.fsencode(folder) + b"/\xff\xfe.npy", good[0])
                                       if False else open(os.fsencode(folder) + b"/\xff.npy", "wb").write(array(good[0]))), "calib",
        codes=EITHER)  # fmt: skip
    add(
        "folder-with-newline",
        calib(lambda folder: np.save(folder / "a\nb.npy", good[0])),
        "calib",
        codes=EITHER,
    )

    def images(make: Callable[[Path], object]) -> Callable[[Path], object]:
        def write(folder: Path) -> None:
            from .models import parsed

            model = parsed("(float[N, 3, 8, 8] x) => (float[N, 3, 8, 8] y) { y = Relu (x) }")
            (folder / "net.onnx").write_bytes(model.SerializeToString())
            (folder / "calib").mkdir()
            for number in range(8):
                Image.new("RGB", (8, 8), (number, 9, 9)).save(folder / "calib" / f"{number}.png")
            make(folder / "calib")

        return write

    whole = io.BytesIO()
    Image.new("RGB", (8, 8)).save(whole, "PNG")
    png = whole.getvalue()
    add(
        "image-not-text-name",
        images(lambda folder: open(os.fsencode(folder) + b"/\xff\xfe.png", "wb").write(png)),
        "calib",
        codes=EITHER,
    )
    add("image-not-text-bad", images(lambda folder: open(os.fsencode(folder) + b"/\xff\xfe.png", "wb").write(png[:40])), "calib",
        says=(".png",))  # fmt: skip
    huge = bytearray(png)
    huge[16:24] = (60_000).to_bytes(4, "big") * 2
    for name, held in {"empty": b"", "cut": png[:40], "text": b"hello", "huge-header": bytes(huge), "gif": b"GIF89a" + bytes(9),
                       "zeros": bytes(100), "tiff": b"II*\0" + b"\xff" * 60}.items():  # fmt: skip
        add(
            f"image-{name}",
            images(lambda folder, held=held: (folder / "9.png").write_bytes(held)),
            "calib",
            says=("9.png",),
        )
    for name, held in {"binary": b"\0\xff" * 50, "loop": b"list.txt\n" * 5, "long": b"n" * 100_000 + b"\n", "pipe": b"/dev/stdin\n",
                       "device": b"/dev/zero\n", "missing": b"no.npy\n"}.items():  # fmt: skip
        add(f"list-{name}", lambda folder, held=held: (folder / "list.txt").write_bytes(held), "list.txt")
    for name, body in {
        "base-exception": "class Mine(BaseException): pass\ndef load_data():\n    raise Mine('no')\n    yield",
        "base-exception-later": "class Mine(BaseException): pass\ndef load_data():\n    yield {'x': np.zeros((1, 16), 'f')}\n    raise Mine('no')",
        "base-exception-at-import": "class Mine(BaseException): pass\nraise Mine('no')",
        "generator-exit": "def load_data():\n    raise GeneratorExit\n    yield",
        "generator-exit-later": "def load_data():\n    yield {'x': np.zeros((1, 16), 'f')}\n    raise GeneratorExit('x')",
        "generator-exit-at-import": "raise GeneratorExit",
        "keyboard-interrupt-subclass": "class Mine(KeyboardInterrupt): pass\ndef load_data():\n    raise Mine\n    yield",
        "exit": "def load_data():\n    raise SystemExit(0)\n    yield",
        "exit-word": "import sys\nsys.exit('bye')",
        "stop": "def load_data():\n    raise StopIteration\n    yield",
        "stop-plain": "class It:\n    def __iter__(self): return self\n    def __next__(self): raise StopAsyncIteration('x')\ndef load_data():\n    return It()",
        "recursion": "def load_data():\n    return load_data()",
        "memory": "def load_data():\n    raise MemoryError\n    yield",
        "no-message": "def load_data():\n    raise Exception\n    yield",
        "bad-str": "class Mine(Exception):\n    def __str__(self): raise ValueError\ndef load_data():\n    raise Mine\n    yield",
        "number": "def load_data():\n    return 5",
        "none": "def load_data():\n    return None",
        "no-samples": "def load_data():\n    return []",
        "odd-keys": "def load_data():\n    yield {5: np.zeros((1, 16), 'f')}",
        "odd-values": "def load_data():\n    yield {'x': 'hello'}",
        "objects": "def load_data():\n    yield {'x': np.array([{}], object)}",
        "void": "def load_data():\n    yield {'x': np.zeros((1, 16), 'V4')}",
        "nan": "def load_data():\n    yield {'x': np.full((1, 16), np.nan, 'f')}",
        "itself": "def load_data():\n    a = []\n    a.append(a)\n    yield {'x': a}",
        "lying-array": "class A:\n    shape = (1, 16)\n    dtype = 'float32'\n    def __array__(self, *a, **k): raise RuntimeError('no')\ndef load_data():\n    yield {'x': A()}",
        "lying-dict": "class D(dict):\n    def items(self): raise RuntimeError('no')\n    def __getitem__(self, k): raise RuntimeError('no')\ndef load_data():\n    yield D(x=1)",
        "syntax": "def load_data(:",
        "indent": "  x = 1\n y = 2",
        "deep": "x = " + "(" * 5000 + ")" * 5000,
        "deep-list": "x = " + "[" * 90 + "]" * 90 + "\ndef load_data():\n    yield {'x': x}",
        "surrogates": "x = '\\udc80'\ndef load_data():\n    raise ValueError(x)\n    yield",
        "frozen-path": "import sys\nsys.path = 5\ndef load_data():\n    yield {'x': np.zeros((1, 16), 'f')}",
        "closed-streams": "import sys\nsys.stderr.close()\ndef load_data():\n    raise ValueError('x')\n    yield",
    }.items():  # fmt: skip
        codes = EITHER if name in ("frozen-path", "closed-streams", "deep-list") else REFUSED
        line = "quantize net.onnx --calib load.py --no-engine --method minmax --repair none"
        found.append(
            Hostile(f"script-{name}", script(body), codes, () if "streams" in name else ("load.py",), (line,))
        )
    tomls = {
        "deep": "x = " + "[" * 20_000 + "]" * 20_000,
        "deep-tables": "[" + ".".join("a" * 20_000) + "]",
        "deep-inline": "x = " + "{a = " * 5000 + "1" + "}" * 5000,
        "digits": "samples = " + "9" * 5000,
        "float-digits": "samples = " + "9" * 5000 + ".5",
        "infinite": "samples = inf",
        "nul": "samples = '\0'",
        "date": "samples = 1979-05-27",
        "not-text": "samples = '\udcff'",
        "wide": "\n".join(f"k{i} = {i}" for i in range(100_000)),
        "long-key": "k" * 1_000_000 + " = 1",
        "list": "samples = [1, 2]",
        "empty-key": '"" = 1',
    }
    for name, body in tomls.items():

        def toml(folder: Path, body: str = body) -> None:
            np.save(folder / "data.npy", good)
            (folder / "set.toml").write_bytes(body.encode("utf-8", "surrogateescape"))

        line = LINE.format("data.npy")
        for flag in ("--config set.toml", "--plan set.toml", "--target set.toml"):
            if flag != "--target set.toml" or name in ("deep", "deep-tables", "digits", "not-text"):
                found.append(
                    Hostile(f"toml-{name} {flag}", beside(toml), REFUSED, ("set.toml",), (f"{line} {flag}",))
                )
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}
