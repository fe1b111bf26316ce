"""SqueezeNet: torchvision numbers the modules of one sequence, pools and ReLUs included."""

from neuralsym.weights.names import KeyFunction, Keys, Scheme, Shapes, paths

# fire2, fire3, ...: where each stands in `features`.
PLACES = {
    "squeezenet1_0": (3, 4, 5, 7, 8, 9, 10, 12),
    "squeezenet1_1": (3, 4, 6, 7, 9, 10, 11, 12),
}


def _numbered(places: tuple[int, ...]) -> KeyFunction:
    fires = {f"fire{i}/{{conv:.+}}": f"features.{n}.{{conv}}" for i, n in enumerate(places, 2)}
    return paths("torch", {"stem": "features.0", **fires, "classifier": "classifier.1"})


def torch(architecture: str, shapes: Shapes) -> Keys:
    return _numbered(PLACES[architecture])(architecture, shapes)


SCHEMES = (Scheme("torchvision", "squeezenet1_[01]", torch),)
