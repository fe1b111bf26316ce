"""The files that torchvision publishes: their names end with the first digits of their SHA-256.

So a copy on a user's disk can be told to be whole. Names of other files may end like that and
mean something else: those are not looked at.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from neuralsym.core.files import Bytes
from neuralsym.errors import FormatError

_NAMES = """
    alexnet-owt-7be5be79 convnext_base-6075fbad convnext_large-ea097f82 convnext_small-0c510722
    convnext_tiny-983f1562 densenet121-a639ec97 densenet161-8d451a50 densenet169-b2777c0a
    densenet201-c1103571 efficientnet_b0_rwightman-7f5810bc efficientnet_b1-c27df63c
    efficientnet_b1_rwightman-bac287d4 efficientnet_b2_rwightman-c35c1473
    efficientnet_b3_rwightman-b3899882 efficientnet_b4_rwightman-23ab8bcd
    efficientnet_b5_lukemelas-1a07897c efficientnet_b6_lukemelas-24a108a5
    efficientnet_b7_lukemelas-c5b4e57e efficientnet_v2_l-59c71312 efficientnet_v2_m-dc08266a
    efficientnet_v2_s-dd5fe13b googlenet-1378be20 inception_v3_google-0cc3c7bd maxvit_t-bc5ab103
    mnasnet0.5_top1_67.823-3ffadce67e mnasnet0_75-7090bc5f mnasnet1.0_top1_73.512-f206786ef8
    mnasnet1_3-a4c69d6f mobilenet_v2-7ebf99e0 mobilenet_v2-b0353104 mobilenet_v3_large-5c1a4163
    mobilenet_v3_large-8738ca79 mobilenet_v3_small-047dcff4 regnet_x_16gf-2007eb11
    regnet_x_16gf-ba3796d7 regnet_x_1_6gf-a12f2b72 regnet_x_1_6gf-e3633e7f
    regnet_x_32gf-6eb8fdc6 regnet_x_32gf-9d47f8d0 regnet_x_3_2gf-7071aa85
    regnet_x_3_2gf-f342aeae regnet_x_400mf-62229a5f regnet_x_400mf-adf1edd5
    regnet_x_800mf-94a99ebd regnet_x_800mf-ad17e45c regnet_x_8gf-03ceed89 regnet_x_8gf-2b70d774
    regnet_y_128gf_lc_swag-cbe8ce12 regnet_y_128gf_swag-c8ce3e52 regnet_y_16gf-3e4a00f9
    regnet_y_16gf-9e6ed7dd regnet_y_16gf_lc_swag-f3ec0043 regnet_y_16gf_swag-43afe44d
    regnet_y_1_6gf-0d7bc02a regnet_y_1_6gf-b11a554e regnet_y_32gf-4dee3f7a
    regnet_y_32gf-8db6d4b5 regnet_y_32gf_lc_swag-e1583746 regnet_y_32gf_swag-04fdfa75
    regnet_y_3_2gf-9180c971 regnet_y_3_2gf-b5a9779c regnet_y_400mf-c65dace8
    regnet_y_400mf-e6988f5f regnet_y_800mf-1b27b58c regnet_y_800mf-58fc7688
    regnet_y_8gf-d0d0e4a8 regnet_y_8gf-dc2b1b54 resnet101-63fe2227 resnet101-cd907fc2
    resnet152-394f9c45 resnet152-f82ba261 resnet18-f37072fd resnet34-b627a593 resnet50-0676ba61
    resnet50-11ad3fa6 resnext101_32x8d-110c445d resnext101_32x8d-8ba56ff5
    resnext101_64x4d-173b62eb resnext50_32x4d-1a0047aa resnext50_32x4d-7cdf4587
    shufflenetv2_x0.5-f707e7126e shufflenetv2_x1-5666bf0f80 shufflenetv2_x1_5-3c479a10
    shufflenetv2_x2_0-8be3c8ee squeezenet1_0-b66bff10 squeezenet1_1-b8a52dc0 swin_b-68c6b09e
    swin_s-5e29d889 swin_t-704ceda3 swin_v2_b-781e5279 swin_v2_s-637d8ceb swin_v2_t-b137f0e2
    vgg11-8a719046 vgg11_bn-6002323d vgg13-19584684 vgg13_bn-abd245e5 vgg16-397923af
    vgg16_bn-6c64b313 vgg16_features-amdegroot-88682ab5 vgg19-dcbb9e9d vgg19_bn-c79401a0
    vit_b_16-c867db91 vit_b_16_lc_swag-4e70ced5 vit_b_16_swag-9ac1b537 vit_b_32-d86f8d99
    vit_h_14_lc_swag-c1eb923e vit_h_14_swag-80465313 vit_l_16-852ce7e3 vit_l_16_lc_swag-4d563306
    vit_l_16_swag-4f3808c9 vit_l_32-c7638314 wide_resnet101_2-32ee1156 wide_resnet101_2-d733dc28
    wide_resnet50_2-95faca4d wide_resnet50_2-9ba9bcbe
"""
_FILES = frozenset(_NAMES.split())


def check_published(path: Path, data: Bytes) -> None:
    """Compare a file that has a published name with its check sum; raises FormatError."""
    if path.suffix != ".pth" or path.stem not in _FILES:
        return
    wanted = path.stem.rpartition("-")[2]
    found = hashlib.sha256(data.data).hexdigest()
    if not found.startswith(wanted):
        raise FormatError(
            f"its SHA-256 begins with {found[: len(wanted)]}, and its name says {wanted}: it is "
            "damaged or another file. Fetch it again, or give it another name"
        )
