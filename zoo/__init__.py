"""Published networks as functions that return a `Network`, imported as `neuralsym.zoo`."""
