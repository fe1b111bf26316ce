"""The compiling CPU engine: kernels, their store, the table driver and the runtime."""
