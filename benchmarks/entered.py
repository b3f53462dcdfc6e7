"""Which functions a default run of the sample model enters: `python -P -m benchmarks.entered`, one a line.

    onnxq/pipeline/jobs.py 41

The line is that of the first decorator, or of `def`. The package is the one that is first on the path. What
child processes enter is not heard.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

DIGITS = Path(__file__).resolve().parents[1] / "sample_models" / "digits"


def main() -> int:
    """Runs it, and prints them."""
    entered = set[CodeType]()

    def heard(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_code)

    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["onnxq", "-q", "quantize", str(DIGITS / "digits.onnx"), "--calib", str(DIGITS / "calib"),
                    "-o", f"{folder}/int8.onnx"]  # fmt: skip
        threading.setprofile(heard)
        sys.setprofile(heard)
        try:
            from onnxq.cli.app import main as run

            run()
        except SystemExit as end:
            if end.code not in (0, 1, None):
                return 1
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    import onnxq

    root = Path(onnxq.__file__).parents[1]
    places = {(Path(code.co_filename), code.co_firstlineno) for code in entered}
    own = [
        (path.relative_to(root).as_posix(), line)
        for path, line in places
        if path.is_relative_to(root / "onnxq")
    ]
    print("\n".join(f"{path} {line}" for path, line in sorted(own)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
