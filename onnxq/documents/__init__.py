"""What onnxq writes and prints, as types: a file for each section.

`onnxq.emit.schemas` makes JSON Schemas of them.
"""
