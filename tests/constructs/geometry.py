"""Sampling at places: GridSample, AffineGrid, RoiAlign, DeformConv; transposed convolutions; small matrices."""

from __future__ import annotations

import numpy as np

from .build import Constructs, f, f32, given, i64, net, one, weights

X = f(1, 2, 5, 6)
GRID = f(1, 3, 4, 2, low=-1.2, high=1.2)


def constructs() -> Constructs:
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            yield one(
                f"grid_{mode}_{padding}", "GridSample", X, GRID, mode=mode, padding_mode=padding, opset=20
            )
        yield one(f"grid_{mode}_corners", "GridSample", X, GRID, mode=mode, align_corners=1, opset=20)
    yield one("grid_cubic_corners_reflection", "GridSample", X, GRID, mode="cubic", align_corners=1, opset=20,
              padding_mode="reflection")  # fmt: skip
    yield one("grid_16_bicubic", "GridSample", X, GRID, mode="bicubic", opset=16)
    yield one("grid_16_bilinear", "GridSample", X, GRID, mode="bilinear", opset=16)
    volume, places = f(1, 2, 3, 4, 5), f(1, 2, 2, 3, 3, low=-1, high=1)
    yield one("grid_volume", "GridSample", volume, places, mode="linear", opset=20)
    yield one(
        "grid_volume_nearest", "GridSample", volume, places, mode="nearest", opset=20, padding_mode="border"
    )
    dynamic = [{"N": 1, "H": 4, "W": 5, "P": 3, "Q": 2}, {"N": 2, "H": 6, "W": 3, "P": 2, "Q": 5}]
    for mode in ("linear", "cubic"):
        yield one(f"grid_{mode}_dynamic", "GridSample", f("N", 2, "H", "W"), f("N", "P", "Q", 2, low=-1, high=1), mode=mode,
                  opset=20, sizes=dynamic)  # fmt: skip
    theta = f(2, 2, 3, low=-1, high=1)
    for corners in (0, 1):
        yield one(
            f"affine_grid_{corners}", "AffineGrid", theta, i64(2, 3, 4, 5), align_corners=corners, opset=20
        )
        yield one(f"affine_grid_volume_{corners}", "AffineGrid", f(1, 3, 4, low=-1, high=1), i64(1, 2, 3, 4, 5),
                  align_corners=corners, opset=20)  # fmt: skip
    yield one(
        "affine_grid_dynamic", "AffineGrid", f("N", 2, 3), given(i64(2, 3, 4, 5)), opset=20, sizes=[{"N": 2}]
    )

    def transformer(n):  # a spatial transformer
        x = f(1, 2, 6, 6)
        x = n("Relu", x)
        theta = n("Reshape", n("Add", n("MatMul", n("Flatten", n("GlobalAveragePool", x)), weights(2, 6)), f32(1, 0, 0, 0, 1, 0)),
                  i64(1, 2, 3))  # fmt: skip
        return n("GridSample", x, n("AffineGrid", theta, n("Shape", x)), mode="linear")

    yield net("spatial_transformer", transformer, opset=20)

    def transformer_dynamic(n):
        x = n("Relu", f("N", 2, 6, 6))
        theta = n("Reshape", n("Add", n("MatMul", n("Flatten", n("GlobalAveragePool", x)), weights(2, 6)), f32(1, 0, 0, 0, 1, 0)),
                  i64(-1, 2, 3))  # fmt: skip
        return n("GridSample", x, n("AffineGrid", theta, n("Shape", x)), mode="linear")

    yield net("spatial_transformer_dynamic", transformer_dynamic, opset=20, sizes=[{"N": 1}, {"N": 3}])
    boxes, batch = f32([0.5, 0.5, 4.2, 3.8], [0, 0, 5, 4], [2.5, 1, 4, 4.6]), i64(0, 0, 0)
    for mode in ("avg", "max"):
        yield one(f"roi_align_{mode}", "RoiAlign", X, boxes, batch, mode=mode, output_height=2, output_width=3,
                  sampling_ratio=2, spatial_scale=1.0, opset=16)  # fmt: skip
    yield one("roi_align_output_half_pixel", "RoiAlign", X, boxes, batch, output_height=2, output_width=2, sampling_ratio=2,
              coordinate_transformation_mode="output_half_pixel", opset=16)  # fmt: skip
    yield one(
        "roi_align_adaptive",
        "RoiAlign",
        X,
        boxes,
        batch,
        output_height=2,
        output_width=2,
        sampling_ratio=0,
        opset=16,
    )
    yield one("roi_align_10", "RoiAlign", X, boxes, batch, output_height=2, output_width=2, sampling_ratio=1, opset=10,
              spatial_scale=0.5)  # fmt: skip
    yield one("roi_align_computed", "RoiAlign", X, given(boxes), given(batch), output_height=3, output_width=3,
              sampling_ratio=2, opset=16)  # fmt: skip
    yield one("roi_align_dynamic_boxes", "RoiAlign", f(1, 2, "H", 6), given(boxes, "R", 4), given(batch, "R"), output_height=2,
              output_width=2, sampling_ratio=2, opset=16, sizes=[{"H": 5, "R": 3}, {"H": 8, "R": 3}])  # fmt: skip
    yield one("roi_align_batch", "RoiAlign", f(3, 2, 5, 6), boxes, i64(2, 0, 1), output_height=2, output_width=2,
              sampling_ratio=2, opset=16)  # fmt: skip
    w = weights(3, 2, 3, 3)
    yield one("deform", "DeformConv", X, w, f(1, 18, 3, 4, low=-1, high=1), opset=19)
    yield one("deform_mask", "DeformConv", X, w, f(1, 18, 5, 6, low=-1, high=1), weights(3), f(1, 9, 5, 6, low=0, high=1),
              pads=[1, 1, 1, 1], opset=19)  # fmt: skip
    yield one(
        "deform_strides",
        "DeformConv",
        X,
        w,
        f(1, 18, 3, 3, low=-1, high=1),
        pads=[1, 1, 1, 1],
        strides=[2, 2],
        opset=19,
    )
    yield one("deform_dilations", "DeformConv", X, w, f(1, 18, 5, 6, low=-1, high=1), pads=[2, 2, 2, 2], dilations=[2, 2],
              opset=19)  # fmt: skip
    yield one("deform_groups", "DeformConv", f(1, 4, 5, 5), weights(4, 2, 3, 3), f(1, 36, 3, 3, low=-1, high=1), group=2,
              offset_group=2, opset=19)  # fmt: skip
    yield one("deform_dynamic_batch", "DeformConv", f("N", 2, 5, 6), w, f("N", 18, 3, 4, low=-1, high=1), opset=19,
              sizes=[{"N": 1}, {"N": 2}])  # fmt: skip

    def deformable(n):  # DCNv2: offsets and masks from a convolution
        x = n("Relu", f(1, 2, 5, 6))
        y = n("Conv", x, weights(27, 2, 3, 3), pads=[1, 1, 1, 1])
        offset, mask = n.several(2, "Split", y, i64(18, 9), axis=1)
        return n("DeformConv", x, w, offset, weights(3), n("Sigmoid", mask), pads=[1, 1, 1, 1])

    yield net("deform_learned", deformable, opset=19)
    # transposed and odd convolutions
    yield one(
        "deconv_output_padding",
        "ConvTranspose",
        X,
        weights(2, 3, 3, 3),
        strides=[2, 2],
        output_padding=[1, 1],
    )
    yield one(
        "deconv_output_shape", "ConvTranspose", X, weights(2, 3, 3, 3), strides=[2, 2], output_shape=[10, 12]
    )
    yield one("deconv_same", "ConvTranspose", X, weights(2, 3, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER")
    yield one(
        "deconv_same_lower", "ConvTranspose", X, weights(2, 3, 3, 3), strides=[2, 2], auto_pad="SAME_LOWER"
    )
    yield one("deconv_dilations", "ConvTranspose", X, weights(2, 3, 3, 3), dilations=[2, 2])
    yield one(
        "deconv_group",
        "ConvTranspose",
        f(1, 4, 5, 5),
        weights(4, 2, 3, 3),
        group=2,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    )
    yield one("deconv_1d", "ConvTranspose", f(1, 2, 7), weights(2, 3, 3), strides=[2])
    yield one("deconv_3d", "ConvTranspose", f(1, 2, 3, 3, 3), weights(2, 3, 2, 2, 2), strides=[2, 2, 2])
    yield one("deconv_uneven_pads", "ConvTranspose", X, weights(2, 3, 3, 3), pads=[0, 1, 1, 0])
    yield one("deconv_computed_weights", "ConvTranspose", X, f(2, 3, 3, 3))
    yield one("conv_computed_weights", "Conv", X, f(3, 2, 3, 3), f(3))
    yield one(
        "conv_rank_3", "Conv", f("N", 2, 9), weights(3, 2, 3), dilations=[2], sizes=[{"N": 1}, {"N": 3}]
    )
    yield one("conv_same_lower", "Conv", X, weights(3, 2, 2, 2), auto_pad="SAME_LOWER", strides=[2, 2])
    yield one("conv_same_dynamic", "Conv", f(1, 2, "H", "W"), weights(3, 2, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2],
              sizes=[{"H": 5, "W": 6}, {"H": 8, "W": 7}])  # fmt: skip
    # small matrices
    yield one("det_2", "Det", f(2, 2))
    yield one("det_3_batch", "Det", f(4, 3, 3))
    yield one("det_4", "Det", f("N", 4, 4), sizes=[{"N": 1}, {"N": 3}])
    yield one("det_1", "Det", f(3, 1, 1))
    good = weights(3, 3, 3) + 2 * np.eye(3, dtype=np.float32)
    yield one("inverse_3", "Inverse", given(good), domain="com.microsoft")
    yield one("inverse_2", "Inverse", given(good[:, :2, :2].copy()), domain="com.microsoft")
    yield one(
        "inverse_4",
        "Inverse",
        given(weights(1, 4, 4) + 2 * np.eye(4, dtype=np.float32)),
        domain="com.microsoft",
    )
    for equation, shapes in (
        ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5))), ("...i->...", ((2, 3, 4),)), ("...ij->...ji", ((2, 3, 4),)),
        ("b...d,d->b...", ((2, 3, 4), (4,))), ("ii->i", ((3, 3),)), ("ii", ((3, 3),)), ("ij,jk", ((2, 3), (3, 4))),
        ("i,j,k->ijk", ((2,), (3,), (4,))), ("bhid,bhjd->bhij", ((1, 2, 3, 4), (1, 2, 5, 4))), ("ij->", ((2, 3),)),
        ("bij,bjk,bkl->bil", ((2, 3, 4), (2, 4, 5), (2, 5, 2))), ("aB,BC->aC", ((2, 3), (3, 4))),
        (" i j , j k -> i k ", ((2, 3), (3, 4))),
    ):  # fmt: skip
        letters = equation.replace(" ", "").replace(",", "_").replace("->", "_to_").replace("...", "dots")
        yield one(f"einsum_{letters}", "Einsum", *(f(*shape) for shape in shapes), equation=equation)
    yield one("einsum_dots_dynamic", "Einsum", f("N", "M", 4), f("N", 4, 5), equation="...ij,...jk->...ik",
              sizes=[{"N": 1, "M": 3}, {"N": 2, "M": 2}])  # fmt: skip
