"""Write tree ensembles as a walk of Gathers, one step a level.

scikit-learn's forests, XGBoost and LightGBM are exported as `TreeEnsembleRegressor`, `TreeEnsembleClassifier` or
`TreeEnsemble` of ai.onnx.ml; TensorRT has no importer for them:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.TreeEnsembleRegressor(x)
    after     at = the roots, [samples, trees]
              at = Where(x[feature[at]] <= threshold[at], left[at], right[at])      for each level
              y = ReduceSum(weights[at]) + base

A leaf leads to itself. Comparisons are as they were, so that each tree ends in the same leaf; the sum over the
trees is taken in another order. Up to 64 levels and 64 MiB of tables.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.rule import Close, Fires, Node, Skip, Skips, Value, op, required, rule

_LEVELS, _MAX_BYTES = 64, 1 << 26
_DOMAIN = "ai.onnx.ml."
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_NUMBERED = dict(zip(range(6), _MODES, strict=True))
_SUM, _AVERAGE, _MIN, _MAX = "SUM", "AVERAGE", "MIN", "MAX"


@dataclass(frozen=True)
class _Forest:
    """Trees as tables over their nodes; a leaf leads to itself."""

    features: np.ndarray
    thresholds: np.ndarray
    modes: list[str]
    left: np.ndarray
    right: np.ndarray
    nan_left: np.ndarray
    roots: np.ndarray
    weights: np.ndarray  # [nodes, targets]

    @property
    def levels(self) -> int:
        """How many steps lead from a root to the furthest leaf."""
        at, count = np.unique(self.roots), 0
        while (at != self.left[at]).any():
            inner = at[at != self.left[at]]
            at, count = np.unique(np.concatenate([self.left[inner], self.right[inner]])), count + 1
            if count > _LEVELS:
                raise Skip(f"its trees have more than {_LEVELS} levels")
        return count


@rule(
    *(_DOMAIN + name for name in ("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble")),
    stage="compat",
)
def trees_by_gathers(node: Node) -> Close:
    (x,) = required(node, 1)
    if x.dtype != np.float32 or x.rank != 2:
        raise Skip(f"{x.name!r} is {x.dtype} of rank {x.rank}, not float32 [samples, features]")
    if node.opset < 13:
        raise Skip(f"opset {node.opset} is older than 13")
    is_classifier = node.op == "TreeEnsembleClassifier"
    names = node.attr("classlabels_int64s", []) or node.attr("classlabels_strings", [])
    forest = (
        _new_form(node)
        if node.op == "TreeEnsemble"
        else _old_form(node, "class" if is_classifier else "target", len(names))
    )
    if forest.weights.nbytes > _MAX_BYTES:
        raise Skip(f"its table of leaves takes {forest.weights.nbytes >> 20} MiB")
    leaves = _leaves(x, forest)
    scores = _aggregated(node, op.Gather(forest.weights, leaves, axis=0), len(forest.roots))
    base = node.attr("base_values", [])
    if len(base) > 0:
        scores = op.Add(scores, np.array(base, np.float32))
    if not is_classifier:
        return Close({0: _transformed(node, scores)})
    return Close(_classified(node, scores, forest, leaves))


def _leaves(x: Value, forest: _Forest) -> Value:
    """The leaf in which each tree ends, for each sample: [samples, trees]."""
    at: Value | np.ndarray = forest.roots
    tracks = bool(forest.nan_left.any())
    for _ in range(forest.levels):
        feature, threshold, left, right, missing = (
            table[at] if isinstance(at, np.ndarray) else op.Gather(table, at)
            for table in (forest.features, forest.thresholds, forest.left, forest.right, forest.nan_left)
        )
        value = (
            op.Gather(x, feature, axis=1)
            if isinstance(at, np.ndarray)
            else op.GatherElements(x, feature, axis=1)
        )
        goes = _compared(value, threshold, forest, at)
        if tracks:
            goes = op.Or(goes, op.And(op.IsNaN(value), missing))
        at = op.Where(goes, left, right)
    if isinstance(at, np.ndarray):  # trees of a leaf alone
        raise Skip("its trees have one leaf each")
    return at


def _compared(value: Value, threshold: Value | np.ndarray, forest: _Forest, at: Value | np.ndarray) -> Value:
    """Whether the left branch is taken."""
    inner = [
        mode
        for mode, node, left in zip(forest.modes, range(len(forest.modes)), forest.left, strict=True)
        if left != node
    ]
    goes: Value | None = None
    for mode in sorted(set(inner)):
        compare = {
            "BRANCH_LEQ": lambda: op.LessOrEqual(value, threshold),
            "BRANCH_LT": lambda: op.Less(value, threshold),
            "BRANCH_GTE": lambda: op.GreaterOrEqual(value, threshold),
            "BRANCH_GT": lambda: op.Greater(value, threshold),
            "BRANCH_EQ": lambda: op.Equal(value, threshold),
            "BRANCH_NEQ": lambda: op.Not(op.Equal(value, threshold)),
        }[mode]()
        if goes is None:
            goes = compare
        else:
            table = np.array([one == mode for one in forest.modes])
            chosen = table[at] if isinstance(at, np.ndarray) else op.Gather(table, at)
            goes = op.Or(op.And(chosen, compare), op.And(op.Not(chosen), goes))
    if goes is None:
        raise Skip("its trees have one leaf each")
    return goes


def _aggregated(node: Node, weights: Value, trees: int) -> Value:
    """The targets of [samples, trees, targets]."""
    how = node.attr("aggregate_function", _SUM)
    how = how if isinstance(how, str) else (_AVERAGE, _SUM, _MIN, _MAX)[how]
    if how in (_SUM, _AVERAGE):
        total = op.ReduceSum(weights, np.array([1]), keepdims=0)
        return total if how == _SUM else op.Div(total, np.float32(trees))
    return _over_trees(node, op.ReduceMin if how == _MIN else op.ReduceMax, weights)


def _over_trees(node: Node, reduce: Any, weights: Value) -> Value:
    result: Value = (
        reduce(weights, axes=[1], keepdims=0)
        if node.opset < 18
        else reduce(weights, np.array([1]), keepdims=0)
    )
    return result


def _transformed(node: Node, scores: Value) -> Value:
    how = node.attr("post_transform", "NONE")
    if how in ("NONE", 0):
        return scores
    if how in ("LOGISTIC", 2):
        return op.Sigmoid(scores)
    if how in ("SOFTMAX", 1):
        return op.Softmax(scores, axis=1)
    raise Skip(f"its post_transform is {how}")


def _classified(node: Node, scores: Value, forest: _Forest, leaves: Value) -> dict[int, Value]:
    """The labels and the scores of a classifier."""
    labels = node.attr("classlabels_int64s", [])
    read = {index for index, tensor in enumerate(node.outputs) if tensor.users or tensor.is_output}
    how = node.attr("post_transform", "NONE")
    ids = set(node.attr("class_ids", []))
    count = len(labels) or len(node.attr("classlabels_strings", []))
    if len(ids) == 1 and count == 2:
        if ids != {0}:
            raise Skip("of two classes only the second has weights")
        one = op.Slice(scores, np.array([0]), np.array([1]), np.array([1]))
        positive = bool((forest.weights >= 0).all())
        chosen = op.Cast(op.Greater(one, np.float32(0.5 if positive and how == "NONE" else 0)), to=7)
        place = op.Reshape(chosen, np.array([-1]))
        if how == "LOGISTIC":
            one = op.Sigmoid(one)
        elif how != "NONE":
            raise Skip(f"its post_transform is {how}")
        other = op.Neg(one) if how == "NONE" and not positive else op.Sub(np.float32(1), one)
        results = {1: op.Concat(other, one, axis=1)}
    else:
        results = {1: _transformed(node, scores)}
        ranked = scores
        if (forest.weights < 0).any():  # a class without a weight in all these leaves is none to choose
            there = _over_trees(node, op.ReduceMax, op.Gather(_weighed(node, forest), leaves, axis=0))
            ranked = op.Where(op.Greater(there, np.float32(0)), scores, np.float32(-np.inf))
        place = op.ArgMax(ranked, axis=1, keepdims=0)
        if count == 2 and 0 in read:  # onnxruntime: whether there is any weight for the second one, as 1 or 0
            if not _all_weigh(node, 1):
                raise Skip("two classes have weights, and not each leaf one for the second")
            second = op.Gather(scores, np.array(1), axis=1)
            place, labels = op.Cast(op.Greater(second, np.float32(0)), to=7), [0, 1]
    if 0 in read:
        if not labels:
            raise Skip("its labels are text, which TensorRT does not have: read the scores alone")
        results[0] = op.Gather(np.array(labels, np.int64), place)
    return {index: results[index] for index in sorted(read)}


def _weighed(node: Node, forest: _Forest) -> np.ndarray:
    """1 where a leaf has a weight for a class, else 0: [nodes, classes]."""
    keys = zip(node.attr("nodes_treeids"), node.attr("nodes_nodeids"), strict=True)
    place = {key: index for index, key in enumerate(keys)}
    found = np.zeros(forest.weights.shape, np.float32)
    for tree, leaf, one in zip(
        *(node.attr(f"class_{name}") for name in ("treeids", "nodeids", "ids")), strict=True
    ):
        found[place[tree, leaf], one] = 1
    return found


def _all_weigh(node: Node, target: int) -> bool:
    """Whether each leaf has a weight for a class."""
    found = zip(*(node.attr(f"class_{name}") for name in ("treeids", "nodeids", "ids")), strict=True)
    leaves = zip(*(node.attr(f"nodes_{name}") for name in ("treeids", "nodeids", "modes")), strict=True)
    weighed = {(tree, leaf) for tree, leaf, one in found if one == target}
    return all((tree, leaf) in weighed for tree, leaf, mode in leaves if mode == "LEAF")


def _old_form(node: Node, kind: str, classes: int) -> _Forest:
    """The trees of a TreeEnsembleRegressor or a TreeEnsembleClassifier."""
    if "nodes_values_as_tensor" in node.attrs or "base_values_as_tensor" in node.attrs:
        raise Skip("its thresholds are double")
    trees, ids = node.attr("nodes_treeids"), node.attr("nodes_nodeids")
    place = {key: index for index, key in enumerate(zip(trees, ids, strict=True))}
    modes = node.attr("nodes_modes")
    own = np.arange(len(ids))

    def led(name: str) -> np.ndarray:
        to = node.attr(name)
        found = [own[i] if modes[i] == "LEAF" else place[trees[i], to[i]] for i in own]
        return np.array(found, np.int64)

    left, right = led("nodes_truenodeids"), led("nodes_falsenodeids")
    reached = {*left[left != own].tolist(), *right[right != own].tolist()}
    roots = np.array([i for i in own.tolist() if i not in reached], np.int64)
    targets = classes if kind == "class" else node.attr("n_targets", 1)
    weights = np.zeros((len(ids), targets), np.float32)
    for tree, leaf, target, weight in zip(
        *(node.attr(f"{kind}_{name}") for name in ("treeids", "nodeids", "ids", "weights")), strict=True
    ):
        weights[place[tree, leaf], target] += np.float32(weight)
    missing = node.attr("nodes_missing_value_tracks_true", []) or [0] * len(ids)
    return _Forest(
        np.where(left == own, 0, np.array(node.attr("nodes_featureids"), np.int64)),
        np.array(node.attr("nodes_values"), np.float32),
        modes,
        left,
        right,
        np.array(missing, bool) & (left != own),
        roots,
        weights,
    )


def _new_form(node: Node) -> _Forest:
    """The trees of a TreeEnsemble: inner nodes, and behind them the leaves."""
    attr: Any = node.attr
    splits, leaves = attr("nodes_splits"), attr("leaf_weights")
    if splits.dtype != np.float32:
        raise Skip(f"its thresholds are {splits.dtype}")
    inner, count = len(splits), len(splits) + len(leaves)
    modes = [_NUMBERED.get(int(mode), "") for mode in attr("nodes_modes")]
    if "" in modes:
        raise Skip("it asks whether a value is one of a set")
    own = np.arange(count)
    left, right = (
        np.concatenate([np.array(to) + inner * np.array(leaf), own[inner:]])
        for to, leaf in (
            (attr(f"nodes_{side}nodeids"), attr(f"nodes_{side}leafs")) for side in ("true", "false")
        )
    )
    weights = np.zeros((count, attr("n_targets")), np.float32)
    weights[own[inner:], np.array(attr("leaf_targetids"))] = leaves
    tail = np.zeros(len(leaves), np.int64)
    missing = np.array(attr("nodes_missing_value_tracks_true", []) or [0] * inner, bool)
    return _Forest(
        np.concatenate([np.array(attr("nodes_featureids"), np.int64), tail]),
        np.concatenate([splits, tail.astype(np.float32)]),
        [*modes, *["LEAF"] * len(leaves)],
        left,
        right,
        np.concatenate([missing, tail.astype(bool)]),
        np.array(attr("tree_roots"), np.int64),
        weights,
    )


_TREES = """nodes_treeids = [0, 0, 0, 0, 0, 1, 1, 1], nodes_nodeids = [0, 1, 2, 3, 4, 0, 1, 2],
    nodes_featureids = [0, 1, 0, 0, 0, 2, 0, 0], nodes_truenodeids = [1, 3, 0, 0, 0, 1, 0, 0],
    nodes_falsenodeids = [2, 4, 0, 0, 0, 2, 0, 0], nodes_values = [0.5, -0.25, 0.0, 0.0, 0.0, 0.125, 0.0, 0.0],
    nodes_modes = ["BRANCH_LEQ", "%s", "LEAF", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"] %s"""
_LEAVES = "%s_treeids = [0, 0, 0, 1, 1], %s_nodeids = [2, 3, 4, 1, 2], %s_weights = [0.1, -0.4, 0.7, 0.3, 0.2], %s_ids = [%s]"


def _net(name: str, kind: str, ids: str, more: str = "", outputs: str = "y", mode: str = "BRANCH_LEQ") -> str:
    leaves = _LEAVES % (kind, kind, kind, kind, ids)
    return f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
    g (float[N, 3] x, float[N] v) => ({outputs}) {{
        {outputs} = ai.onnx.ml.TreeEnsemble{name} <{_TREES % (mode, more)}, {leaves}> (x) }}"""


_LABELS = ", classlabels_int64s = [3, 7]"


def _new() -> Any:
    """A model with a TreeEnsemble, whose tensors ONNX's text form does not have."""
    import onnx

    def tensor(values: Any, dtype: Any) -> Any:
        return onnx.numpy_helper.from_array(np.array(values, dtype))

    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 5]>
        g (float[N, 2] x) => (float[N, 2] y) { y = ai.onnx.ml.TreeEnsemble <n_targets = 2, aggregate_function = 1,
        tree_roots = [0], nodes_featureids = [0, 1, 0], nodes_truenodeids = [1, 0, 1], nodes_trueleafs = [0, 1, 1],
        nodes_falsenodeids = [2, 2, 3], nodes_falseleafs = [0, 1, 1], leaf_targetids = [0, 1, 0, 1]> (x) }""")
    for name, values, dtype in (
        ("nodes_modes", [0, 0, 1], np.uint8),
        ("nodes_splits", [0.5, -0.25, 1.5], np.float32),
        ("leaf_weights", [5.25, 12.0, -12.5, 7.25], np.float32),
    ):
        model.graph.node[0].attribute.append(onnx.helper.make_attribute(name, tensor(values, dtype)))
    return model


def _chain(levels: int) -> str:
    """A tree of so many levels that each lead to a leaf and to the next one."""
    inner, count = range(levels), 2 * levels + 1
    numbers = {
        "nodes_treeids": [0] * count,
        "nodes_nodeids": range(count),
        "nodes_featureids": [0] * count,
        "nodes_truenodeids": [*(i + 1 for i in inner), *([0] * (levels + 1))],
        "nodes_falsenodeids": [*(levels + 1 + i for i in inner), *([0] * (levels + 1))],
        "target_treeids": [0] * (levels + 1),
        "target_nodeids": range(levels, count),
        "target_ids": [0] * (levels + 1),
    }
    floats = {"nodes_values": [1.0] * count, "target_weights": [1.0] * (levels + 1)}
    told = [f"{name} = {list(values)}" for name, values in {**numbers, **floats}.items()]
    modes = ['"BRANCH_LEQ"'] * levels + ['"LEAF"'] * (levels + 1)
    return f"""<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[N, 1] x) => (y) {{
        y = ai.onnx.ml.TreeEnsembleRegressor <n_targets = 1, nodes_modes = [{", ".join(modes)}], {", ".join(told)}> (x) }}"""


EXAMPLES = [
    Fires(_new, gone="TreeEnsemble"),
    Fires(
        _net("Regressor", "target", "0, 0, 0, 0, 0", ", n_targets = 1, base_values = [0.5]"),
        gone="TreeEnsembleRegressor",
        becomes="""_1 = Gather <axis = 1> (x, {0, 2}); _2 = LessOrEqual (_1, {0.5, 0.125})
        _3 = Where (_2, {1, 6}, {2, 7}); _4 = Gather ({0, 1, 0, 0, 0, 2, 0, 0}, _3)
        _5 = GatherElements <axis = 1> (x, _4)
        _6 = Gather ({0.5, -0.25, 0.0, 0.0, 0.0, 0.125, 0.0, 0.0}, _3); _7 = LessOrEqual (_5, _6)
        _8 = Gather ({1, 3, 2, 3, 4, 6, 6, 7}, _3); _9 = Gather ({2, 4, 2, 3, 4, 7, 6, 7}, _3)
        _10 = Where (_7, _8, _9)
        _11 = Gather <axis = 0> ([8, 1] {0.0, 0.0, 0.1, -0.4, 0.7, 0.0, 0.3, 0.2}, _10)
        _12 = ReduceSum <keepdims = 0> (_11, {1}); y = Add (_12, {0.5})""",
    ),
    Fires(
        _net(
            "Regressor",
            "target",
            "0, 1, 0, 1, 1",
            ', n_targets = 2, aggregate_function = "MAX", nodes_missing_value_tracks_true = [1, 0, 0, 0, 0, 1, 0, 0]',
            mode="BRANCH_GT",
        ),
        gone="TreeEnsembleRegressor",
    ),
    Fires(
        _net("Classifier", "class", "0, 1, 2, 1, 0", ", classlabels_int64s = [3, 7, 5]", "l, y"),
        gone="TreeEnsembleClassifier",
    ),
    Skips(_net("Classifier", "class", "1, 1, 1, 1, 1", _LABELS, "l, y"), because="only the second"),
    Fires(_net("Classifier", "class", "0, 0, 0, 0, 0", _LABELS, "l, y"), gone="TreeEnsembleClassifier"),
    Fires(
        _net("Classifier", "class", "0, 0, 0, 0, 0", _LABELS, "l, y").replace("-0.4", "0.4"),
        gone="TreeEnsembleClassifier",
    ),
    Skips(_net("Classifier", "class", "0, 1, 0, 1, 0", _LABELS, "l, y"), because="not each leaf"),
    Fires(
        _net("Classifier", "class", "1, 1, 1, 1, 1, 0", _LABELS, "l, y")
        .replace("[0, 0, 0, 1, 1]", "[0, 0, 0, 1, 1, 0]")
        .replace("[2, 3, 4, 1, 2]", "[2, 3, 4, 1, 2, 2]")
        .replace("0.3, 0.2]", "0.3, 0.2, 0.9]"),
        gone="TreeEnsembleClassifier",
    ),
    Skips(_chain(65), because="more than 64 levels"),
    Fires(
        _net("Classifier", "class", "0, 0, 0, 0, 0", _LABELS + ', post_transform = "LOGISTIC"', "l, y"),
        gone="TreeEnsembleClassifier",
    ),
    Skips(
        _net("Classifier", "class", "0, 1, 2, 1, 0", ', classlabels_strings = ["a", "b", "c"]', "l, y"),
        because="its labels are text",
    ),
    Skips(
        _net("Regressor", "target", "0, 0, 0, 0, 0", ', n_targets = 1, post_transform = "PROBIT"'),
        because="PROBIT",
    ),
]
