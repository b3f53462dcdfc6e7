"""LSTM, GRU and RNN: directions, rare attributes, few steps, peepholes, sequence lengths, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .build import Constructs, Net, f, f32, given, i, i64, net, weights

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def cell(n: Net, op: str, *, steps: Any = 4, batch: Any = 2, size: int = 3, hidden: int = 5, two: bool = False, bias: bool = True,
         lengths: Any = None, initial: bool = False, peephole: bool = False, outputs: int = 0, dtype: Any = np.float32,
         **attributes: Any) -> tuple[str, ...]:  # fmt: skip
    """A recurrent operator of constant weights."""
    d, g = 2 if two else 1, GATES[op] * hidden
    dims = (batch, steps, size) if attributes.get("layout") else (steps, batch, size)
    state = (batch, d, hidden) if attributes.get("layout") else (d, batch, hidden)
    operands: list[Any] = [
        f(*dims, dtype=dtype), weights(d, g, size, dtype=dtype), weights(d, g, hidden, dtype=dtype),
        weights(d, 2 * g, dtype=dtype) if bias else None, lengths, f(*state, dtype=dtype) if initial else None,
    ]  # fmt: skip
    if op == "LSTM":
        operands += [
            f(*state, dtype=dtype) if initial else None,
            weights(d, 3 * hidden, dtype=dtype) if peephole else None,
        ]
    while operands[-1] is None:
        operands.pop()
    if two:
        attributes["direction"] = "bidirectional"
    return n.several(outputs or (3 if op == "LSTM" else 2), op, *operands, hidden_size=hidden, **attributes)


def constructs() -> Constructs:
    for op in GATES:
        low = op.lower()

        def made(
            name: str, sizes: Any = ({},), opset: int = 18, op: str = op, low: str = low, **more: Any
        ) -> Any:
            return net(f"{low}_{name}", lambda n: cell(n, op, **more), sizes=sizes, opset=opset)

        yield made("plain")
        yield made("bidirectional", two=True)
        yield made("reverse", direction="reverse")
        yield made("one_step", steps=1)
        yield made("one_step_state", steps=1, batch=1, initial=True)
        yield made("two_steps", steps=2, initial=True)
        yield made("no_bias", bias=False)
        yield made("initial", initial=True, two=True)
        yield made("dynamic_batch", batch="N", sizes=[{"N": 1}, {"N": 3}])
        yield made("dynamic_steps", steps="T", sizes=[{"T": 3}, {"T": 6}])
        yield made("lengths", lengths=np.array([4, 2], np.int32))
        yield made("lengths_computed", lengths=given(np.array([3, 4], np.int32)))
        yield made("clip", clip=0.4)
        yield made("half", dtype=np.float16)
        yield made("one_output", outputs=1)
        acts = {
            "LSTM": ["HardSigmoid", "Tanh", "Softsign"],
            "GRU": ["HardSigmoid", "Softsign"],
            "RNN": ["Relu"],
        }[op]
        yield made("activations", activations=acts)
        acts = {"LSTM": ["Sigmoid", "Relu", "Tanh"], "GRU": ["Sigmoid", "Relu"], "RNN": ["Sigmoid"]}[op]
        yield made("activations_two_ways", activations=acts * 2, two=True)
        acts = {
            "LSTM": ["Sigmoid", "LeakyRelu", "Tanh"],
            "GRU": ["Sigmoid", "LeakyRelu"],
            "RNN": ["LeakyRelu"],
        }[op]
        yield made("leaky", activations=acts, activation_alpha=[0.2] * len(acts))
    yield net("gru_linear_before_reset", lambda n: cell(n, "GRU", linear_before_reset=1))
    yield net(
        "gru_linear_before_reset_one_step",
        lambda n: cell(n, "GRU", linear_before_reset=1, steps=1, initial=True),
    )
    yield net("lstm_peephole", lambda n: cell(n, "LSTM", peephole=True))
    yield net("lstm_peephole_one_step", lambda n: cell(n, "LSTM", peephole=True, steps=1))
    yield net("lstm_input_forget", lambda n: cell(n, "LSTM", input_forget=1))
    yield net(
        "rnn_scaled_tanh",
        lambda n: cell(n, "RNN", activations=["ScaledTanh"], activation_alpha=[1.5], activation_beta=[0.7]),
    )
    yield net(
        "rnn_affine",
        lambda n: cell(n, "RNN", activations=["Affine"], activation_alpha=[0.5], activation_beta=[0.1]),
    )
    yield net(
        "rnn_thresholded", lambda n: cell(n, "RNN", activations=["ThresholdedRelu"], activation_alpha=[0.3])
    )
    yield net("rnn_softplus", lambda n: cell(n, "RNN", activations=["Softplus"]))
    yield net("rnn_elu", lambda n: cell(n, "RNN", activations=["Elu"], activation_alpha=[0.8]))

    def stacked(n):  # two layers, as torch writes them
        y = cell(n, "LSTM", steps=3)[0]
        y = n("Squeeze", y, i64([1]))
        return n("LSTM", y, weights(1, 16, 5), weights(1, 16, 4), weights(1, 32), hidden_size=4)

    yield net("lstm_stacked", stacked)

    def decoder(n):  # one step of a decoder, with its states in and out
        x = n("Unsqueeze", n("Gather", weights(11, 3), i("N", high=11)), i64([0]))
        y, h, c = n.several(3, "LSTM", x, weights(1, 20, 3), weights(1, 20, 5), weights(1, 40), None, f(1, "N", 5), f(1, "N", 5),
                            hidden_size=5)  # fmt: skip
        return n("MatMul", n("Squeeze", y, i64([0, 1])), weights(5, 11)), h, c

    yield net("lstm_decoder_step", decoder, sizes=[{"N": 1}, {"N": 2}])

    def last_state(n):
        return n("MatMul", n("Squeeze", cell(n, "GRU", batch="N")[1], i64([0])), weights(5, 2))

    yield net("gru_last_state", last_state, sizes=[{"N": 1}, {"N": 2}])

    def computed_weights(n):
        return n.several(
            2,
            "GRU",
            f(3, 2, 3),
            n("Mul", f(1, 15, 3), f32(0.2)),
            n("Mul", f(1, 15, 5), f32(0.2)),
            hidden_size=5,
        )

    yield net("gru_computed_weights", computed_weights)
    yield net(
        "reverse_sequence",
        lambda n: n("ReverseSequence", f(4, 3), given(i64(4, 2, 3)), time_axis=0, batch_axis=1),
    )
    yield net(
        "reverse_sequence_batch_first",
        lambda n: n("ReverseSequence", f(3, 4, 2), i64(4, 1, 3), time_axis=1, batch_axis=0),
    )
