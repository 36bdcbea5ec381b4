"""The eleven pre-trainings of the paper's Table VI, all of a ViT-B, by short name."""

from __future__ import annotations

from dataclasses import dataclass

from nngcd.core.errors import ResourceError


@dataclass(frozen=True, kw_only=True, slots=True)
class PreTraining:
    """Pre-trained model that a short name stands for."""

    timm_name: str
    """The timm model it is built as, which also gives the mean and deviation of its images."""
    training: str
    """Way in which the weights were trained, in one line."""
    weights: str
    """Where they come from, in words."""
    licence: str
    """Licence of the weights, as their authors give it."""
    is_on_hub: bool = True
    """Whether timm can download them; otherwise the user gives the file."""
    image_size: int | None = None
    """Side of the crop in pixels, if not the model's own."""


# A table, not one file each: they differ in data only, and `supervised-1k` cannot be the name of a module.
PRE_TRAININGS = {
    "dino": PreTraining(
        timm_name="vit_base_patch16_224.dino",
        training="self-distillation without labels, ImageNet-1k (Caron 2021); the backbone of the paper's tables",
        weights="timm, or dino_vitbase16_pretrain.pth of facebookresearch/dino",
        licence="Apache-2.0",
    ),
    "dinov2": PreTraining(
        timm_name="vit_base_patch14_dinov2.lvd142m",
        training="self-distillation and masked patches, 142 million images (Oquab 2023); patches of 14 pixels",
        weights="timm, or dinov2_vitb14_pretrain.pth of facebookresearch/dinov2",
        licence="Apache-2.0",
        # The model's own 518 pixels cost five times the tokens, and the field compares all backbones at 224.
        image_size=224,
    ),
    "mae": PreTraining(
        timm_name="vit_base_patch16_224.mae",
        training="masked autoencoder, ImageNet-1k (He 2022)",
        weights="timm, or mae_pretrain_vit_base.pth of facebookresearch/mae",
        licence="CC-BY-NC-4.0",
    ),
    "ibot": PreTraining(
        # timm has no iBOT. Its network, image size, mean and deviation are those of DINO.
        timm_name="vit_base_patch16_224.dino",
        training="self-distillation and masked patches, ImageNet-1k (Zhou 2021)",
        weights="checkpoint_teacher.pth of bytedance/ibot, 'backbone (t)' of ViT-B/16 in the table of its README",
        licence="Apache-2.0",
        is_on_hub=False,
    ),
    "mocov3": PreTraining(
        # timm has no MoCo v3. Its network, image size, mean and deviation are those of DINO.
        timm_name="vit_base_patch16_224.dino",
        training="momentum contrast, ImageNet-1k, 300 epochs (Chen 2021)",
        weights="vit-b-300ep.pth.tar of facebookresearch/moco-v3, 'ViT-Base' in the table of its CONFIG.md",
        licence="CC-BY-NC-4.0",
        is_on_hub=False,
    ),
    "sam": PreTraining(
        # The paper cites Foret 2020: the optimiser called SAM, not the Segment Anything Model.
        timm_name="vit_base_patch16_224.sam_in1k",
        training="supervised with sharpness-aware minimisation, ImageNet-1k (Foret 2020)",
        weights="timm",
        licence="Apache-2.0",
    ),
    "deit": PreTraining(
        timm_name="deit_base_patch16_224.fb_in1k",
        training="supervised with strong augmentation, not distilled, ImageNet-1k (Touvron 2021)",
        weights="timm, or deit_base_patch16_224-b5f2ef4d.pth of facebookresearch/deit",
        licence="Apache-2.0",
    ),
    "deit3": PreTraining(
        timm_name="deit3_base_patch16_224.fb_in1k",
        training="supervised with the recipe of DeiT III, ImageNet-1k (Touvron 2022)",
        weights="timm, or deit_3_base_224_1k.pth of facebookresearch/deit",
        licence="Apache-2.0",
    ),
    "clip": PreTraining(
        # The same weights as vit_base_patch16_clip_224.openai, with the activation they were trained with.
        timm_name="vit_base_patch16_clip_quickgelu_224.openai",
        training="images matched with their captions, 400 million pairs (Radford 2021)",
        weights="timm",
        licence="MIT",
    ),
    "supervised-1k": PreTraining(
        # The paper names the ViT paper only, which released no weights trained on ImageNet-1k alone; these are later.
        timm_name="vit_base_patch16_224.augreg_in1k",
        training="supervised, ImageNet-1k (ViT: Dosovitskiy 2020; these weights: Steiner 2021)",
        weights="timm",
        licence="Apache-2.0",
    ),
    "supervised-22k": PreTraining(
        timm_name="vit_base_patch16_224.augreg_in21k",
        training="supervised, ImageNet-21k, which the paper calls 22K (ViT: Dosovitskiy 2020; these: Steiner 2021)",
        weights="timm",
        licence="Apache-2.0",
    ),
}


def check_weights_can_be_had(name: str) -> None:
    """Raise `ResourceError` if a pre-training needs a file from its user; the message says which and from where."""
    pre_training = PRE_TRAININGS[name]
    if not pre_training.is_on_hub:
        raise ResourceError(
            f"the weights of '{name}' cannot be downloaded by name. Download {pre_training.weights} "
            f"(licence {pre_training.licence}), and add --weights FILE."
        )
