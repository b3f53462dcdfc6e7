"""What onnxq writes and prints, as types: a file for each section.

`onnxq.schemas` makes JSON Schemas of them.
"""
