"""AlexNet: torchvision numbers the modules of two sequences, pools and ReLUs included."""

from neuralsym.weights.names import Scheme, paths

CONVOLUTIONS = (0, 3, 6, 8, 10)
AFFINE = (1, 4, 6)

SCHEMES = (
    Scheme(
        "torchvision",
        "alexnet",
        paths(
            "torch",
            {
                **{f"conv{i}": f"features.{n}" for i, n in enumerate(CONVOLUTIONS, 1)},
                **{f"fc{i}": f"classifier.{n}" for i, n in enumerate(AFFINE, 1)},
            },
        ),
    ),
)
