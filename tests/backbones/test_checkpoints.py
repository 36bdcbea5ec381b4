"""Checkpoints with the names and shapes of the original releases, written here from small networks."""

import re
from argparse import Namespace

import numpy as np
import pytest
import timm
import torch

from nngcd.backbones import load_backbone, timm_loading
from nngcd.backbones.weights import fingerprint, load_weights
from nngcd.core.errors import DataError

WIDTH = 24
SMALL = {"depth": 2, "embed_dim": WIDTH, "num_heads": 2, "num_classes": 0}


def small(name="vit_base_patch16_224.dino", seed=0, **options):
    torch.manual_seed(seed)
    network = timm.create_model(name, **{**SMALL, "img_size": 32, **options}).eval()
    for parameter in network.parameters():
        # Else biases and layer scales are the same in every network.
        torch.nn.init.normal_(parameter, std=0.1)
    return network


def small_dinov2(seed=0, **options):
    return small("vit_base_patch14_dinov2.lvd142m", seed, **{"img_size": 28, **options})


def prefixed(prefix, state):
    return {prefix + name: tensor for name, tensor in state.items()}


def other(state):
    return {name: tensor + 1 for name, tensor in state.items()}


def dino_head():
    layers = {f"mlp.{i}.{part}": torch.ones(4) for i in (0, 2, 4) for part in ("weight", "bias")}
    return prefixed(
        "head.", {**layers, "last_layer.weight_g": torch.ones(9, 1), "last_layer.weight_v": torch.ones(9, 4)}
    )


def dino_full(state):
    student = prefixed("module.", {**prefixed("backbone.", other(state)), **dino_head()})
    groups = [{"lr": np.float64(1e-6), "weight_decay": np.float64(0.4), "params": [0]}]
    return {
        "student": student,
        "teacher": {**prefixed("backbone.", state), **dino_head()},
        "optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": groups},
        "epoch": 400,
        "args": Namespace(arch="vit_base", patch_size=16),
        "dino_loss": {"center": torch.ones(1, 9)},
    }


def dino_student(state):
    return {"student": prefixed("module.", {**prefixed("backbone.", state), **dino_head()})}


def ibot_teacher(state):
    return {"state_dict": state}


def ibot_student(state):
    return {"state_dict": {**state, "masked_embed": torch.ones(1, WIDTH)}}


def ibot_full(state):
    masked = {"backbone.masked_embed": torch.ones(1, WIDTH)}
    student = prefixed("module.", {**prefixed("backbone.", other(state)), **masked, **dino_head()})
    return {**dino_full(state), "student": student, "ibot_loss": {"center2": torch.ones(1, 1, 9)}}


def mocov3_head():
    linear = {f"head.{i}.weight": torch.ones(4, 4) for i in (0, 3, 6)}
    norms = {f"head.{i}.{part}": torch.ones(4) for i in (1, 4, 7) for part in ("running_mean", "running_var")}
    return {**linear, **norms, "head.1.num_batches_tracked": torch.tensor(7)}


def mocov3(state):
    encoders = {
        **prefixed("base_encoder.", {**state, **mocov3_head()}),
        **prefixed("momentum_encoder.", {**other(state), **mocov3_head()}),
        "predictor.0.weight": torch.ones(4, 4),
    }
    return {"epoch": 300, "arch": "vit_base", "state_dict": prefixed("module.", encoders), "scaler": {"scale": 1.0}}


def mocov3_momentum(state):
    return {"state_dict": prefixed("module.momentum_encoder.", {**state, **mocov3_head()})}


def mocov3_linear(state):
    head = {"head.weight": torch.ones(10, WIDTH), "head.bias": torch.ones(10)}
    return {"epoch": 90, "arch": "vit_base", "state_dict": prefixed("module.", {**state, **head}), "best_acc1": 76.7}


def mae_encoder(state):
    return {"model": state}


def mae_full(state):
    block = {"norm1.weight": torch.ones(8), "attn.qkv.weight": torch.ones(24, 8), "mlp.fc1.bias": torch.ones(32)}
    decoder = {
        "mask_token": torch.ones(1, 1, 8),
        "decoder_pos_embed": torch.ones(1, 5, 8),
        "decoder_embed.weight": torch.ones(8, WIDTH),
        **prefixed("decoder_blocks.0.", block),
        "decoder_norm.weight": torch.ones(8),
        "decoder_pred.weight": torch.ones(768, 8),
    }
    return {"model": {**state, **decoder}, "epoch": 800, "args": Namespace(model="mae_vit_base_patch16")}


# dict: the backbone-only file of DINO.
VIT_FORMS = [
    *(dict, dino_full, dino_student, ibot_teacher, ibot_student, ibot_full),
    *(mocov3, mocov3_momentum, mocov3_linear, mae_encoder, mae_full),
]


def dinov2_released(state):
    return {**state, "mask_token": torch.ones(1, WIDTH)}


def dinov2_chunked(state):
    """Two chunks of one block each, as training with `block_chunks=2` names them."""
    chunked = {re.sub(r"^blocks\.(\d+)\.", r"blocks.\1.\1.", name): tensor for name, tensor in state.items()}
    return {**chunked, "mask_token": torch.ones(1, WIDTH)}


def dinov2_teacher(state):
    heads = {"dino_head.mlp.0.weight": torch.ones(4, 4), "ibot_head.last_layer.weight_g": torch.ones(9, 1)}
    return {"teacher": {**prefixed("backbone.", dinov2_chunked(state)), **heads}}


def dinov2_training(state):
    student = prefixed("student.backbone.", dinov2_released(other(state)))
    return {"model": {**student, **prefixed("teacher.backbone.", dinov2_released(state))}, "iteration": 9}


def check_loads(content, source, model, file):
    torch.save(content, file)
    assert fingerprint(model) != fingerprint(source)
    load_weights(model, file)
    images = torch.rand(2, 3, *source.patch_embed.img_size)
    torch.testing.assert_close(model(images), source(images), rtol=0, atol=0)


@pytest.mark.parametrize("form", VIT_FORMS)
def test_dino_ibot_moco_and_mae_load(form, tmp_path):
    source = small(seed=1)
    check_loads(form(source.state_dict()), source, small(seed=2), tmp_path / "checkpoint.pth.tar")


@pytest.mark.parametrize("form", [dinov2_released, dinov2_chunked, dinov2_teacher, dinov2_training])
def test_dinov2_loads(form, tmp_path):
    source = small_dinov2(seed=1)
    assert "blocks.1.ls2.gamma" in source.state_dict()
    check_loads(form(source.state_dict()), source, small_dinov2(seed=2), tmp_path / "dinov2.pth")


def test_dinov2_with_registers_in_chunks_loads(tmp_path):
    source, model = (small("vit_base_patch14_reg4_dinov2.lvd142m", seed, img_size=28) for seed in (1, 2))
    state = dict(source.state_dict())
    state["register_tokens"] = state.pop("reg_token")
    # The original adds a position to the class token, too; timm keeps their sum.
    state["pos_embed"] = torch.cat([torch.full((1, 1, WIDTH), 2.0), state["pos_embed"]], 1)
    state["cls_token"] = state["cls_token"] - 2
    torch.save(dinov2_chunked(state), tmp_path / "dinov2.pth")
    load_weights(model, tmp_path / "dinov2.pth")
    images = torch.rand(2, 3, 28, 28)
    torch.testing.assert_close(model(images), source(images))


def test_layer_scales_of_deit3_load(tmp_path):
    source, model = (small("deit3_base_patch16_224.fb_in1k", seed) for seed in (1, 2))
    state = {re.sub(r"\.ls([12])\.gamma$", r".gamma_\1", name): tensor for name, tensor in source.state_dict().items()}
    assert "blocks.0.gamma_1" in state
    check_loads({"model": {**state, "head.weight": torch.ones(10, WIDTH)}}, source, model, tmp_path / "deit3.pth")


def test_numbers_as_numpy_1_wrote_them_load(tmp_path):
    source, model = small(seed=1), small(seed=2)
    file = tmp_path / "checkpoint.pth"
    torch.save(dino_full(source.state_dict()), file, _use_new_zipfile_serialization=False)
    content = file.read_bytes()
    names = (b"numpy._core.multiarray\nscalar", b"numpy.core.multiarray\nscalar")
    assert any(name in content for name in names)
    file.write_bytes(content.replace(*names))
    load_weights(model, file)
    assert fingerprint(model) == fingerprint(source)


def test_another_image_size_is_resampled_as_timm_does(tmp_path):
    source, model, resized = small(seed=1, img_size=64), small(seed=2), small(seed=1, img_size=64)
    torch.save(mocov3(source.state_dict()), tmp_path / "moco.pth.tar")
    load_weights(model, tmp_path / "moco.pth.tar")
    resized.set_input_size(img_size=(32, 32))
    assert fingerprint(model) == fingerprint(resized)


def test_a_file_of_the_asked_image_size_is_not_resampled(tmp_path, monkeypatch):
    source = small_dinov2(seed=1, img_size=56)
    torch.save(dinov2_teacher(source.state_dict()), tmp_path / "teacher_checkpoint.pth")
    monkeypatch.setattr(timm_loading, "_untrained", lambda name: small(name, seed=2, img_size=28))
    backbone = load_backbone("dinov2", weights=tmp_path / "teacher_checkpoint.pth", image_size=56)
    assert backbone.fingerprint == fingerprint(source)


def refusal(content, model, file):
    torch.save(content, file)
    before = fingerprint(model)
    with pytest.raises(DataError) as caught:
        load_weights(model, file)
    assert fingerprint(model) == before
    return str(caught.value)


def test_patches_of_another_size_are_refused_not_resampled(tmp_path):
    # As many positions as the model has, so that only the patches differ.
    content = mocov3(small("vit_base_patch8_224.dino", img_size=16).state_dict())
    message = refusal(content, small(), tmp_path / "a.pth")
    assert "1 of 30 tensors do not match. patch_embed.proj.weight: expected 24x3x16x16, found 24x3x8x8." in message
    content = dinov2_released(small("vit_base_patch14_dinov2.lvd142m", img_size=56, init_values=None).state_dict())
    message = refusal(content, small(), tmp_path / "b.pth")
    assert "pos_embed: expected 1x5x24, found 1x17x24; patch_embed.proj.weight: expected 24x3x16x16" in message


@pytest.mark.parametrize("form", VIT_FORMS)
def test_a_missing_block_is_named(form, tmp_path):
    message = refusal(form(small(depth=1).state_dict()), small(), tmp_path / "a.pth")
    assert "12 of 30 tensors do not match" in message
    assert "blocks.1.norm1.weight: expected 24, found nothing; blocks.1.norm1.bias: expected 24" in message


@pytest.mark.parametrize("form", [dinov2_released, dinov2_chunked])
def test_a_block_too_many_is_named(form, tmp_path):
    message = refusal(form(small_dinov2(depth=3).state_dict()), small_dinov2(), tmp_path / "a.pth")
    assert re.search(r"blocks\.(2\.)?2\.norm1\.weight: expected nothing, found 24", message)


@pytest.mark.parametrize("form", VIT_FORMS)
def test_another_width_is_named_with_the_shapes_of_the_file(form, tmp_path):
    message = refusal(form(small(embed_dim=36, img_size=64).state_dict()), small(), tmp_path / "a.pth")
    assert "cls_token: expected 1x1x24, found 1x1x36; pos_embed: expected 1x5x24, found 1x17x36" in message


def test_weights_of_dinov2_do_not_pass_for_dino(tmp_path):
    state = small("vit_base_patch16_224.dino", init_values=1e-5).state_dict()
    message = refusal(dinov2_released(state), small(), tmp_path / "a.pth")
    assert "blocks.0.ls1.gamma: expected nothing, found 24" in message


def test_an_unrelated_file_is_refused_with_its_own_names(tmp_path):
    message = refusal({"words.weight": torch.ones(3), "epoch": 1}, small(), tmp_path / "a.pth")
    assert "cls_token: expected 1x1x24, found nothing" in message
    assert message.endswith("The names in the file: words.weight ...")


def test_blocks_that_would_take_the_same_name_are_not_lost(tmp_path):
    state = small().state_dict()
    twice = {re.sub(r"^blocks\.(\d)\.", rf"blocks.{chunk}.\1.", n): t for chunk in "01" for n, t in state.items()}
    message = refusal(twice, small(), tmp_path / "a.pth")
    assert "blocks.0.norm1.weight: expected 24, found nothing" in message


def test_a_truncated_file_is_refused(tmp_path):
    file = tmp_path / "checkpoint_teacher.pth"
    torch.save(ibot_teacher(small().state_dict()), file)
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"checkpoint_teacher\.pth is damaged"):
        load_weights(small(), file)


class MakesFile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("place", ["args", "options", "lr"])
def test_code_in_a_checkpoint_is_refused_and_not_run(place, tmp_path):
    trap = MakesFile(tmp_path / "code-was-run")
    content = dino_full(small().state_dict())
    if place == "options":
        content["args"] = Namespace(data=trap)
    elif place == "args":
        content["args"] = trap
    else:
        content["optimizer"]["param_groups"][0]["lr"] = trap
    assert "could run code" in refusal(content, small(), tmp_path / "a.pth")
    assert not (tmp_path / "code-was-run").exists()
