"""`python -m onnxq`."""

from onnxq.cli.app import main

if __name__ == "__main__":
    main()
