"""The symbolic core: types, dimensions, constants, symbols, nodes and graphs."""
