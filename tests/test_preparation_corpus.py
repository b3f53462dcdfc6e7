"""What trained nets say of how their images are prepared (in the folder that ONNXQ_CORPUS names)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from said import is_said

import onnxq

if not os.environ.get("ONNXQ_CORPUS"):
    pytest.skip("ONNXQ_CORPUS names no folder of models", allow_module_level=True)

CORPUS = Path(os.environ["ONNXQ_CORPUS"])
CIFAR, MNIST = CORPUS / "models/cifar10_pytorch_winml.onnx", CORPUS / "models/mnist_cntk_ortie.onnx"


def told(model: Path, name: str, fed: np.ndarray) -> list[str]:
    """The hints of what the net's answers say."""
    seen = onnxq.look(model, {name: np.ascontiguousarray(fed, np.float32)})
    assert "unnormalized" not in [one.kind for one in seen.warnings]  # where answers tell, they tell it
    return [one.hint for one in seen.warnings if one.text.count("of its answers")]


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """64 images of CIFAR-10, from 0 to 255, `[64, 3, 32, 32]`."""
    return np.load(CORPUS / "data/cifar10_2500.npz")["images"][:64].transpose(0, 3, 1, 2).astype(np.float64)


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    """64 digits of MNIST, likewise, white on black."""
    return np.load(CORPUS / "data/mnist_5000.npz")["images"][:64, None].astype(np.float64)


@pytest.fixture(scope="module")
def faces() -> np.ndarray:
    """24 photographs of faces, BGR from 0 to 255, `[24, 3, 120, 160]`."""
    paths = sorted((CORPUS / "data/faces").iterdir())
    made = [np.asarray(Image.open(one).convert("RGB").resize((160, 120)), np.float32) for one in paths]
    return np.stack(made)[..., ::-1].transpose(0, 3, 1, 2)


def test_a_detector_of_no_known_task_tells_it_by_the_places_that_it_finds(faces: np.ndarray) -> None:
    """Pixels to 255 in the order BGR are right, whatever they look like."""
    yunet = CORPUS / "models/yunet_120x160.onnx"
    seen = onnxq.look(yunet, {"input": np.ascontiguousarray(faces)})
    assert [one.kind for one in seen.warnings] == ["few-samples"]
    for wrong in (faces / 255, faces / 127.5 - 1):
        assert told(yunet, "input", wrong) == [
            "if the model was trained so, give the arrays as pixels from 0 to 255"
        ]


def test_images_as_in_training_are_right(images: np.ndarray, digits: np.ndarray) -> None:
    """Nothing in either net says that its output is made of scores."""
    assert told(CIFAR, "modelInput", images / 127.5 - 1) == []
    assert told(MNIST, "Input3", digits) == []


def test_other_values_are_told(images: np.ndarray) -> None:
    assert len(told(CIFAR, "modelInput", images / 255)) == 1


def test_the_other_order_is_told_of_few_images(images: np.ndarray) -> None:
    (hint,) = told(CIFAR, "modelInput", images[:, ::-1] / 127.5 - 1)
    assert is_said(hint, "pictures-as.arrays/do", how="reverse their channels, x[:, ::-1]")


def test_black_digits_on_white_are_told(digits: np.ndarray) -> None:
    (hint,) = told(MNIST, "Input3", 255 - digits)
    assert is_said(hint, "pictures-as.inverted-arrays/do", sums=255)


@pytest.mark.parametrize("kind", [1, 4, 8])
def test_images_of_one_class_are_right(kind: int) -> None:
    """Other values have more answers, which tell more apart: but a moved image gets another one."""
    data = np.load(CORPUS / "data/cifar10_2500.npz")
    images = data["images"][data["labels"] == kind][:64].transpose(0, 3, 1, 2).astype(np.float64)
    assert told(CIFAR, "modelInput", images / 127.5 - 1) == []
