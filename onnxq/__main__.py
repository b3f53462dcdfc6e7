"""`python -m onnxq`, and the command itself."""

import os
import sys


def main() -> None:
    """Runs the command line and exits with its exit code."""
    from onnxq.base.supervised import supervised

    supervised(_run, _died)


def _died(signal: str) -> int:
    from onnxq.cli.died import died

    return died(signal)


def _run() -> None:
    from onnxq.base.errors import UserError

    try:
        from onnxq.cli.app import main as run
    except (
        UserError
    ) as error:  # of a method or step of the user's (`options/`): the flags are made of them all
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    run()


if __name__ == "__main__":
    # of `python -m` the folder that one is in comes first: no onnx.py of a user's is to be run
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != os.getcwd()]
    main()
