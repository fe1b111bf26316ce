"""The operators of ONNX as typed functions on symbols."""
