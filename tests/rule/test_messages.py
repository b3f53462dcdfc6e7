"""What is known of what TensorRT printed: found by its words, whatever names and numbers it has."""

from __future__ import annotations

import pytest

from onnxq.rule.load import load_rules
from onnxq.rule.messages import Match, known_of, quotations
from onnxq.targets import load_target

RULES = load_rules()
TARGETS = [load_target("tensorrt-11"), load_target("tensorrt-rtx")]


def known(message: str) -> list[Match]:
    return known_of(message, RULES, TARGETS)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (
            "[E] IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (ITopKLayer /model.22/TopK: "
            "/model.22/TopK: K exceeds the maximum value allowed (3840). In processCheck at /_src/x.cpp:1066",
            "topk_over_limit",
        ),
        (
            "In node 17 with name: /q/Einsum: Invalid character(s) in Einsum equation: Q,K",
            "einsum_lower_case",
        ),
        (
            "Conv_3: first input has type UInt8 but must have type Float, Half, BFloat16, FP8, E8M0, FP4, "
            "Int4, Int8, Int64, Int32, or Bool. In checkType at /_src/optimizer/common/nodeBase.cpp:456",
            "widen_integers",
        ),
        (
            "Number of dimensions (11) is not in the valid range [-1, Dims::MAX_DIMS]. In replica",
            "merge_dimensions",
        ),
        ("[UNSUPPORTED_NODE] Eyelike does not work for dynamically shaped tensors.", "eyelike_by_range"),
        ("No importer registered for op: BitShift. Attempting to import as plugin.", "shift_by_powers"),
        ("checkNonZero: UNSUPPORTED_NODE: false", "NonZero"),
        (
            "importDropout: UNSUPPORTED_NODE: Assertion failed: inputs.at(2).is_weights(): This Version of "
            "TensorRT only supports the training_mode input as an initializer.",
            "runtime-training-mode",
        ),
    ],
)
def test_the_first_that_is_known_is_what_helps(message: str, name: str) -> None:
    assert [match.name for match in known(message)][:1] == [name]


def test_a_type_tells_the_rules_apart_that_quote_one_message() -> None:
    names = [
        m.name for m in known("Assertion failed: status.is_success(): Found unsupported input type of INT64")
    ]
    assert "integer_products" in names
    assert "symmetric_weights" not in names


@pytest.mark.parametrize("message", ["", "42", "Segmentation fault (core dumped)", "the model is too slow"])
def test_nothing_is_known_of_other_words(message: str) -> None:
    assert known(message) == []


def test_every_quotation_is_found_by_itself() -> None:
    """Whatever a rule quotes leads to that rule, or to as many others as quote the same."""
    for rule in RULES:
        for line in quotations(rule.doc):
            same = {other.id for other in RULES if line in quotations(other.doc)}
            found = {match.name for match in known(line)}
            many = {"no-plugin", "unsupported-node", "no-importer"}  # of what parsers say of any node
            assert found & (same | many), (rule.id, line, found)


def test_the_first_and_the_last_of_a_quotation_alone_are_enough() -> None:
    """What stands in front of "(...)" and behind it are lines that a user may paste by themselves."""
    parts = [
        (rule, part.strip())
        for rule in RULES
        for line in quotations(rule.doc)
        for part in line.split("(...)")
        if part.strip() and part != line
    ]
    assert len(parts) > 15
    for rule, part in parts:
        names = [match.name for match in known(part)]
        assert rule.id in names or names == ["unsupported-node"], (rule.id, part, names)


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("Clip max value must be an initializer!", {"explicit_clip_bounds"}),
        ("No importer registered for op: If", {"inline_if", "squeeze_to_slice", "no-importer"}),
        ('ModelImporter.cpp:773: While parsing node number 5 [If -> "y"]:', {"inline_if", "parsing"}),
        ("No importer registered for op: MyOwn", {"no-importer"}),
    ],
)
def test_a_part_of_a_message_is_known(message: str, names: set[str]) -> None:
    assert names <= {match.name for match in known(message)}


def test_quotations_leave_out_what_shows_the_rewriting() -> None:
    doc = "Do.\n\nSaid\n\n    Bad thing.\n    Worse thing.\n\n    before    y = A(x)\n    after     y = B(x)"
    assert quotations(doc) == ["Bad thing.", "Worse thing."]
