"""Fourier transforms, windows, mel filters, folds."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, f, f32, i64, net, one, weights


def constructs() -> Constructs:
    one_sided = dict(onesided=1)
    yield one("dft_real", "DFT", f(1, 8, 1), axis=1, opset=17)
    yield one("dft_real_onesided", "DFT", f(2, 9, 1), axis=1, opset=17, **one_sided)
    yield one("dft_complex", "DFT", f(2, 6, 2), axis=1, opset=17)
    yield one("dft_inverse", "DFT", f(2, 6, 2), axis=1, inverse=1, opset=17)
    yield one("dft_length_pads", "DFT", f(2, 6, 1), i64(8), axis=1, opset=17)
    yield one("dft_length_crops", "DFT", f(2, 6, 2), i64(4), axis=1, opset=17)
    yield one("dft_rank_4", "DFT", f(2, 3, 5, 1), axis=2, opset=17)
    yield one("dft_rank_4_axis_1", "DFT", f(2, 3, 5, 2), axis=1, opset=17)
    yield one("dft_negative_axis", "DFT", f(2, 3, 4, 1), axis=-2, opset=17, **one_sided)
    yield one("dft_dynamic_batch", "DFT", f("N", 8, 1), axis=1, opset=17, sizes=[{"N": 1}, {"N": 3}])
    yield one("dft_20", "DFT", f(1, 8, 1), None, i64(1), opset=20)
    yield one(
        "dft_20_onesided",
        "DFT",
        f("N", 8, 1),
        i64(8),
        i64(1),
        opset=20,
        sizes=[{"N": 1}, {"N": 3}],
        **one_sided,
    )
    yield one("dft_20_inverse", "DFT", f(2, 6, 2), None, i64(-2), inverse=1, opset=20)
    yield one("dft_double", "DFT", f(1, 8, 1, dtype=np.float64), axis=1, opset=17)
    yield one("dft_odd_length", "DFT", f(1, 15, 1), axis=1, opset=17)
    yield one("dft_large", "DFT", f(1, 256, 1), axis=1, opset=17, **one_sided)

    def two_dimensions(n, inverse=0):  # torch.fft.fft2
        y = n("DFT", f(1, 4, 6, 2), axis=2, inverse=inverse)
        return n("DFT", y, axis=1, inverse=inverse)

    yield net("dft_two_dimensions", two_dimensions, opset=17)
    yield net("dft_two_dimensions_inverse", lambda n: two_dimensions(n, 1), opset=17)

    def there_and_back(n):  # a filter in frequency space
        y = n("DFT", f("N", 8, 1), axis=1)
        y = n("Mul", y, f32(*np.linspace(1, 0, 8)).reshape(8, 1))
        return n("Slice", n("DFT", y, axis=1, inverse=1), i64([0]), i64([1]), i64([2]))

    yield net("dft_filter", there_and_back, opset=17, sizes=[{"N": 1}, {"N": 2}])

    def magnitude(n):  # power spectrum
        y = n("DFT", f(2, 16, 1), axis=1, onesided=1)
        return n("ReduceSum", n("Mul", y, y), i64([2]), keepdims=0)

    yield net("power_spectrum", magnitude, opset=17)
    hann = np.hanning(8).astype(np.float32)
    yield one("stft", "STFT", f(1, 32, 1), i64(4), hann, opset=17)
    yield one("stft_onesided_off", "STFT", f(1, 32, 1), i64(4), hann, onesided=0, opset=17)
    yield one("stft_batch", "STFT", f(3, 20, 1), i64(5), hann, opset=17)
    yield one("stft_no_window", "STFT", f(1, 32, 1), i64(8), None, i64(8), opset=17)
    yield one("stft_window_and_length", "STFT", f(1, 30, 1), i64(3), hann, i64(8), opset=17)
    yield one("stft_dynamic_batch", "STFT", f("N", 32, 1), i64(4), hann, opset=17, sizes=[{"N": 1}, {"N": 2}])
    yield one(
        "stft_dynamic_length", "STFT", f(1, "T", 1), i64(4), hann, opset=17, sizes=[{"T": 24}, {"T": 40}]
    )
    yield one("stft_complex", "STFT", f(1, 24, 2), i64(4), hann, onesided=0, opset=17)

    def log_mel(n):
        y = n("STFT", f(1, 64, 1), i64(8), np.hanning(16).astype(np.float32))
        y = n("ReduceSum", n("Mul", y, y), i64([3]), keepdims=0)
        y = n("MatMul", y, np.abs(weights(9, 5)))
        return n("Log", n("Max", y, f32(1e-5)))

    yield net("log_mel", log_mel, opset=17)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):

            def windowed(n, op=op, periodic=periodic):
                return n("Mul", f(2, 10), n(op, i64(10), periodic=periodic))

            yield net(f"{op.removesuffix('Window').lower()}_window_{periodic}", windowed, opset=17)

    def dynamic_window(n):
        x = f(1, "T")
        x = n("Relu", x)
        return n("Mul", x, n("HannWindow", n("Squeeze", n("Slice", n("Shape", x), i64([1]), i64([2])))))

    yield net("hann_window_dynamic", dynamic_window, opset=17, sizes=[{"T": 8}, {"T": 13}])

    def mel(n):
        m = n("MelWeightMatrix", i64(4), i64(16), i64(8000), f32(0), f32(4000))
        return n("MatMul", f("N", 9), m)

    yield net("mel_weights", mel, opset=17, sizes=[{"N": 2}, {"N": 3}])
    # folds
    yield one("col2im", "Col2Im", f(1, 9, 16), i64(6, 6), i64(3, 3))
    yield one("col2im_strides", "Col2Im", f(2, 8, 9), i64(6, 6), i64(2, 2), strides=[2, 2])
    yield one("col2im_pads", "Col2Im", f(1, 12, 25), i64(4, 4), i64(2, 2), pads=[1, 1, 1, 1])
    yield one("col2im_dilations", "Col2Im", f(1, 4, 16), i64(6, 6), i64(2, 2), dilations=[2, 2])
    yield one(
        "col2im_dynamic_batch", "Col2Im", f("N", 9, 16), i64(6, 6), i64(3, 3), sizes=[{"N": 1}, {"N": 3}]
    )
    yield one("col2im_1d", "Col2Im", f(1, 6, 4), i64([6]), i64([3]))
    yield one("col2im_3d", "Col2Im", f(1, 8, 8), i64(3, 3, 3), i64(2, 2, 2))

    def overlap_add(n):
        y = n("Col2Im", n("Transpose", f(1, 5, 8), perm=[0, 2, 1]), i64(1, 16), i64(1, 8), strides=[1, 2])
        return n("Reshape", y, i64(1, 16))

    yield net("overlap_add", overlap_add)
    yield one("complex_product", "Einsum", f(2, 3, 2), f(2, 3, 2), equation="abc,abc->abc")
    yield one("bernoulli", "Bernoulli", f(3, 4, low=0, high=1), random=True)
    yield one("bernoulli_int", "Bernoulli", f("N", 4, low=0, high=1), random=True, dtype=TensorProto.INT64,
              sizes=[{"N": 2}, {"N": 4}])  # fmt: skip
    yield one("random_normal_like", "RandomNormalLike", f(3, 4), random=True)
    yield one("random_uniform_like_dynamic", "RandomUniformLike", f("N", 4), random=True, low=-1.0, high=1.0,
              sizes=[{"N": 2}, {"N": 4}])  # fmt: skip

    def noise(n):
        return n("Add", f(2, 3), n("RandomNormal", shape=[2, 3], mean=1.0, scale=2.0))

    yield net("random_normal", noise, random=True)
    yield net("random_uniform", lambda n: n("Add", f(2, 3), n("RandomUniform", shape=[2, 3])), random=True)
    yield one("multinomial", "Multinomial", f(2, 5), sample_size=4, random=True)
    yield one(
        "multinomial_int64", "Multinomial", f(2, 5), sample_size=1, dtype=TensorProto.INT64, random=True
    )
