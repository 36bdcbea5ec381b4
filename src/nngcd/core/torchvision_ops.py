"""Lets torchvision, and timm with it, be imported with a torch build that its compiled part was not made for.

The torchvision wheel on PyPI is built for CUDA. Beside a CPU build of torch its compiled extension does not load, and
then `import torchvision` stops with "operator torchvision::nms does not exist", because it describes two operators that
the extension should have declared. Only those two declarations are missing: with them, transforms, models and timm
work. Calling `nms` itself still fails, as it must; nothing here calls it.
"""

from __future__ import annotations

import importlib

import torch

# A declaration lives as long as its library object.
_declarations: list[torch.library.Library] = []


def make_torchvision_importable() -> None:
    """Declare torchvision's missing operators if its import fails without them; call before importing timm.

    Where torchvision works, and from the second call on, this is an ordinary import of torchvision and changes nothing.
    """
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        # Trying first, rather than probing the compiled file, never declares anything twice in a working installation.
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for operator in ("nms", "qnms"):
            schema = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(schema)  # type: ignore[no-untyped-call]
        _declarations.append(library)
        importlib.import_module("torchvision")
