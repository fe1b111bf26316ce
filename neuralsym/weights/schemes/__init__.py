"""Which file knows how the weights of an architecture are spelled elsewhere; one file a family.

These files are data, and the only place where other frameworks' spellings stand; `names.py` says
how to write one.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import import_module

from neuralsym.weights.names import Scheme

# Patterns of architecture names, tried in order, and the module of this package that has SCHEMES.
FAMILIES: tuple[tuple[str, str], ...] = (
    ("resnet*_v2", "resnet_v2"),
    ("resnet*", "resnet"),
    ("resnext*", "resnet"),
    ("wide_resnet*", "resnet"),
    ("squeezenet*", "squeezenet"),
    ("inception_v3*", "inception_v3"),
    ("inception_resnet_v2", "inception_resnet_v2"),
    ("efficientnet_*", "efficientnet"),
    ("mobilenet_v2*", "mobilenet_v2"),
    ("mobilenet_v3*", "mobilenet_v3"),
    ("mobilenet*", "mobilenet"),
    ("nasnet_*", "nasnet"),
    ("xception", "xception"),
    ("alexnet", "alexnet"),
    ("vgg*", "vgg"),
    ("googlenet", "googlenet"),
    ("densenet*", "densenet"),
    ("shufflenet_v2_*", "shufflenet_v2"),
    ("mnasnet*", "mnasnet"),
    ("regnet_*", "regnet"),
    ("convnext_*", "convnext"),
    ("maxvit_*", "maxvit"),
    ("swin_*", "swin"),
    ("vit_*", "vit"),
)


def of_family(architecture: str) -> tuple[Scheme, ...]:
    """The schemes of the family, those for its other architectures included."""
    for pattern, module in FAMILIES:
        if fnmatchcase(architecture, pattern):
            schemes: tuple[Scheme, ...] = import_module(f"{__name__}.{module}").SCHEMES
            return schemes
    return ()
