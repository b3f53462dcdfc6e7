"""`python -m onnxq`, and the command itself."""

import sys

from onnxq.base.errors import UserError


def main() -> None:
    """Runs the command line and exits with its exit code."""
    try:
        from onnxq.cli.app import main as run
    except (
        UserError
    ) as error:  # of a method or step of the user's (`options/`): the flags are made of them all
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    run()


if __name__ == "__main__":
    main()
