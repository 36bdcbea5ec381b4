from nngcd.core.torchvision_ops import make_torchvision_importable

make_torchvision_importable()  # before any test here imports timm
