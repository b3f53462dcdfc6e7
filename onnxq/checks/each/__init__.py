"""Onnxq's checks, a file each; what begins with an underscore is shared by some of them."""
