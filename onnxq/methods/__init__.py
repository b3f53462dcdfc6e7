"""The calibration methods, a file each: a threshold from the statistics of a tensor.

A file of the user's has the same form, and needs no more than what is named here.
"""

from onnxq.options.method import CalibrationMethod, Parameter, method

__all__ = ["CalibrationMethod", "Parameter", "method"]
