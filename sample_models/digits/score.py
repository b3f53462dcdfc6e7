"""Print the top-1 accuracy of digits models on the held-out images of ``test.npz``.

python score.py digits.onnx digits.int8.onnx
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime as ort

TEST = Path(__file__).parent / "test.npz"


def score(model: Path, images: np.ndarray, labels: np.ndarray) -> dict[str, str | float | int]:
    """Run one model over all images; its size in bytes includes external data beside it."""
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    # One image at a time, so that a model whose batch was fixed to one is scored as well.
    answers = [session.run(None, {"image": image[None]})[0].argmax() for image in images]
    weights = model.with_name(model.name + ".data")
    return {
        "model": str(model),
        "top1_percent": 100 * float(np.mean(answers == labels)),
        "images": len(labels),
        "bytes": sum(file.stat().st_size for file in (model, weights) if file.exists()),
    }


def main() -> None:
    """Score the models that the command line names."""
    parser = argparse.ArgumentParser(description="Top-1 of digits models on the held-out images.")
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--json", action="store_true", help="print a JSON list, not a table")
    arguments = parser.parse_args()

    with np.load(TEST) as test:
        rows = [score(model, test["image"], test["labels"]) for model in arguments.models]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    width = max(len("model"), *(len(str(row["model"])) for row in rows))
    print(f"{'model':{width}}  {'top-1 %':>7}  {'images':>6}  {'bytes':>8}")
    for row in rows:
        print(f"{row['model']:{width}}  {row['top1_percent']:7.2f}  {row['images']:6}  {row['bytes']:8}")


if __name__ == "__main__":
    main()
