"""Micro-kernels as LLVM IR text: convolution, pooling, matrix multiplication, change of layout.

Each template turns a small frozen description into the text of one kernel of the kernel ABI and
knows nothing of graphs. Beside each stand the pure functions that plan it, pack its weights and
fill its descriptor.
"""
