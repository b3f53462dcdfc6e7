"""ai.onnx.ml: what scikit-learn's exporter writes for scalers, encoders, linear models, SVMs and trees."""

from __future__ import annotations

import functools

import numpy as np

from .build import Constructs, TensorProto, f, f32, given, i, i64, net, tensor, weights
from .build import one as plain_one

one = functools.partial(plain_one, domain="ai.onnx.ml", domains={"ai.onnx.ml": 3})
N = [{"N": 3}, {"N": 5}]


def constructs() -> Constructs:
    yield one("scaler", "Scaler", f(3, 4), offset=[0.5, -1.0, 2.0, 0.0], scale=[2.0, 0.5, 1.0, 3.0])
    yield one("scaler_one_for_all", "Scaler", f("N", 4), offset=[0.5], scale=[2.0], sizes=N)
    yield one("scaler_int64", "Scaler", i(3, 2), offset=[0.5, 1.0], scale=[2.0, 0.25])
    yield one("normalizer_max", "Normalizer", f(3, 4), norm="MAX")
    yield one("normalizer_l1", "Normalizer", f("N", 4), norm="L1", sizes=N)
    yield one("normalizer_l2", "Normalizer", f(3, 4), norm="L2")
    yield one("binarizer", "Binarizer", f(3, 4), threshold=0.3)
    yield one("binarizer_default", "Binarizer", f("N", 4), sizes=N)
    holes = np.where(weights(3, 4) > 0.3, np.nan, weights(3, 4)).astype(np.float32)
    yield one("imputer_nan", "Imputer", given(holes), imputed_value_floats=[1.0, 2.0, 3.0, 4.0],
              replaced_value_float=float("nan"))  # fmt: skip
    yield one("imputer_value", "Imputer", given(f32([[1, -9], [-9, 2]])), imputed_value_floats=[0.5],
              replaced_value_float=-9.0)  # fmt: skip
    yield one(
        "imputer_int64", "Imputer", i(3, 2, high=3), imputed_value_int64s=[7, 8], replaced_value_int64=0
    )
    yield one("one_hot_encoder", "OneHotEncoder", i(4, high=5), cats_int64s=[0, 1, 2, 3, 4], zeros=1)
    yield one("one_hot_encoder_unknown", "OneHotEncoder", i(4, 2, high=7), cats_int64s=[0, 2, 5], zeros=1)
    yield one(
        "one_hot_encoder_float", "OneHotEncoder", given(f32([[1], [3], [5]])), cats_int64s=[1, 3, 5], zeros=0
    )
    yield one("one_hot_encoder_dynamic", "OneHotEncoder", i("N", 1, high=3), cats_int64s=[0, 1, 2], sizes=N)
    yield one("label_encoder_int_float", "LabelEncoder", i(5, high=4), keys_int64s=[0, 1, 2], default_float=-1.0,
              values_floats=[0.5, 1.5, 2.5])  # fmt: skip
    yield one("label_encoder_int_int", "LabelEncoder", i(2, 3, high=9), keys_int64s=[1, 4, 7], default_int64=-1,
              values_int64s=[10, 40, 70])  # fmt: skip
    yield one("label_encoder_float_int", "LabelEncoder", given(f32(0, 1.5, 2.5, 9)), keys_floats=[1.5, 2.5],
              values_int64s=[3, 4], default_int64=0)  # fmt: skip
    yield one("label_encoder_float_float", "LabelEncoder", given(f32([1, float("nan")])), keys_floats=[1.0, float("nan")],
              values_floats=[3.0, 4.0], default_float=0.0)  # fmt: skip
    yield one("label_encoder_4", "LabelEncoder", i(4, high=5), domains={"ai.onnx.ml": 4}, opset=20,
              keys_tensor=tensor(i64(1, 3), "k"), values_tensor=tensor(f32(0.1, 0.3), "v"),
              default_tensor=tensor(f32([9]), "d"))  # fmt: skip
    yield one("array_feature_extractor", "ArrayFeatureExtractor", f(3, 5), i64(0, 4, 2))
    yield one("array_feature_extractor_one", "ArrayFeatureExtractor", f("N", 5), i64([3]), sizes=N)
    yield one("array_feature_extractor_computed", "ArrayFeatureExtractor", f(2, 5), i(3, high=5))
    yield one("feature_vectorizer", "FeatureVectorizer", f(3, 2), f(3, 1), inputdimensions=[2, 1])
    yield one("feature_vectorizer_int", "FeatureVectorizer", i(3, 2), i(3, 4), inputdimensions=[2, 4])
    c = [0.5, -1.0, 2.0]
    for post in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"):
        if post != "PROBIT":
            yield one(f"linear_regressor_{post.lower()}", "LinearRegressor", f("N", 3), coefficients=[*c, 1.0, 0.0, -0.5],
                      intercepts=[0.1, -0.2], targets=2, post_transform=post, sizes=N)  # fmt: skip
    yield one("linear_regressor_one", "LinearRegressor", f(4, 3), coefficients=c, intercepts=[0.3], targets=1)
    yield one("linear_regressor_no_intercept", "LinearRegressor", f(4, 3), coefficients=c)
    yield one("linear_classifier_three", "LinearClassifier", f("N", 2), outputs=2, coefficients=[1.0, -1.0, 0.5, 2.0, -0.3, 1.0],
              intercepts=[0.1, 0.2, -0.1], classlabels_ints=[0, 1, 2], post_transform="SOFTMAX", sizes=N)  # fmt: skip
    yield one("linear_classifier_labels", "LinearClassifier", f(4, 2), outputs=2, coefficients=[1.0, -1.0, 0.5, 2.0, -0.3, 1.0],
              intercepts=[0.1, 0.2, -0.1], classlabels_ints=[3, 7, 11], multi_class=1, post_transform="LOGISTIC")  # fmt: skip
    yield one("linear_classifier_two", "LinearClassifier", f(5, 2), outputs=2, coefficients=[1.0, -1.0, -1.0, 1.0],
              intercepts=[0.1, -0.1], classlabels_ints=[0, 1], multi_class=1, post_transform="LOGISTIC")  # fmt: skip
    vectors = weights(4, 3).reshape(-1).tolist()
    for kernel, parameters in (("LINEAR", [0.0, 0.0, 0.0]), ("RBF", [0.4, 0.0, 0.0]), ("POLY", [0.4, 1.0, 3.0]),
                               ("SIGMOID", [0.4, 0.1, 0.0])):  # fmt: skip
        yield one(f"svm_regressor_{kernel.lower()}", "SVMRegressor", f(3, 3), support_vectors=vectors, n_supports=4,
                  coefficients=[0.5, -1.0, 0.25, 0.75], rho=[0.2], kernel_type=kernel, kernel_params=parameters)  # fmt: skip
    yield one("svm_classifier", "SVMClassifier", f(3, 3), outputs=2, support_vectors=vectors, vectors_per_class=[2, 2],
              coefficients=[0.5, 1.0, -0.75, -0.75], rho=[0.2], kernel_type="RBF", kernel_params=[0.4, 0.0, 0.0],
              classlabels_ints=[0, 1], post_transform="NONE")  # fmt: skip
    tree = dict(
        nodes_treeids=[0] * 5 + [1] * 3, nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
        nodes_featureids=[0, 1, 0, 0, 0, 2, 0, 0], nodes_values=[0.1, -0.3, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 3, 0, 0, 0, 1, 0, 0], nodes_falsenodeids=[2, 4, 0, 0, 0, 2, 0, 0],
    )  # fmt: skip
    leaves = dict(
        treeids=[0, 0, 0, 1, 1], nodeids=[2, 3, 4, 1, 2], ids=[0] * 5, weights=[1.0, -2.0, 0.5, 0.25, -0.75]
    )
    for aggregate in ("SUM", "AVERAGE", "MAX"):
        yield one(f"tree_regressor_{aggregate.lower()}", "TreeEnsembleRegressor", f("N", 3), n_targets=1, **tree,
                  aggregate_function=aggregate, sizes=N, **{f"target_{key}": value for key, value in leaves.items()})  # fmt: skip
    yield one("tree_regressor_base", "TreeEnsembleRegressor", f(4, 3), n_targets=1, **tree, base_values=[0.5],
              **{f"target_{key}": value for key, value in leaves.items()})  # fmt: skip
    yield one("tree_regressor_less", "TreeEnsembleRegressor", f(4, 3), n_targets=1,
              **{**tree, "nodes_modes": [m.replace("LEQ", "LT") for m in tree["nodes_modes"]]},
              **{f"target_{key}": value for key, value in leaves.items()})  # fmt: skip
    classes = {f"class_{key}": value for key, value in leaves.items()} | {"class_ids": [0, 1, 2, 1, 0]}
    yield one("tree_classifier", "TreeEnsembleClassifier", f("N", 3), outputs=2, **tree, **classes,
              classlabels_int64s=[0, 1, 2], post_transform="NONE", sizes=N)  # fmt: skip
    yield one("tree_classifier_softmax", "TreeEnsembleClassifier", f(4, 3), outputs=2, **tree, **classes,
              classlabels_int64s=[5, 6, 9], post_transform="SOFTMAX")  # fmt: skip
    # whole pipelines, as skl2onnx writes them
    ml = {"ai.onnx.ml": 3}

    def scaled_regression(n):
        x = n("Scaler", f("N", 3), offset=[0.1, 0.2, 0.3], scale=[1.0, 2.0, 0.5], domain="ai.onnx.ml")
        y = n("LinearRegressor", x, coefficients=c, intercepts=[0.3], targets=1, domain="ai.onnx.ml")
        return n("Reshape", y, i64(-1, 1))

    yield net("scaler_regression", scaled_regression, domains=ml, sizes=N)

    def scaled_classifier(n):
        x = n(
            "Imputer",
            f("N", 2),
            imputed_value_floats=[0.1, 0.2],
            replaced_value_float=float("nan"),
            domain="ai.onnx.ml",
        )
        label, raw = n.several(2, "LinearClassifier", x, coefficients=[1.0, -1.0, 0.5, 2.0, -0.3, 1.0],
                               intercepts=[0.1, 0.2, -0.1], classlabels_ints=[0, 1, 2], post_transform="SOFTMAX",
                               domain="ai.onnx.ml")  # fmt: skip
        scores = n("Normalizer", raw, norm="L1", domain="ai.onnx.ml")
        return n("Cast", label, to=TensorProto.INT64), scores

    yield net("imputer_classifier", scaled_classifier, domains=ml, sizes=N)

    def perceptron(n):  # MLPClassifier
        x = n("MatMul", n("Cast", f("N", 4), to=TensorProto.FLOAT), weights(4, 8))
        x = n("Softmax", n("MatMul", n("Relu", x), weights(8, 3)), axis=1)
        best = n("ArgMax", x, axis=1)
        label = n("ArrayFeatureExtractor", i64([10, 20, 30]), best, domain="ai.onnx.ml")
        return n("Reshape", label, i64([-1])), x

    yield net("perceptron_labels", perceptron, domains=ml, sizes=N)

    def columns(n):  # ColumnTransformer
        x = f("N", 4)
        x = n("Relu", x)
        left = n("ArrayFeatureExtractor", x, i64(0, 2), domain="ai.onnx.ml")
        right = n("ArrayFeatureExtractor", x, i64(1, 3), domain="ai.onnx.ml")
        left = n("Scaler", left, offset=[0.1, 0.2], scale=[1.0, 2.0], domain="ai.onnx.ml")
        right = n("Binarizer", right, threshold=0.5, domain="ai.onnx.ml")
        return n("Concat", left, right, axis=1)

    yield net("column_transformer", columns, domains=ml, sizes=N)
