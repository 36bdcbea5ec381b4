import pickle
from collections import OrderedDict

import pytest
import timm
import torch
from safetensors.torch import save_file

from nngcd.backbones.weights import fingerprint, load_weights, read_state
from nngcd.core.errors import DataError, ResourceError


def small_vit(seed=0, **options):
    torch.manual_seed(seed)
    settings = {"depth": 1, "embed_dim": 24, "num_heads": 2, "img_size": 32, "num_classes": 0, **options}
    return timm.create_model("vit_tiny_patch16_224", **settings)


def prefixed(state, prefix):
    return {prefix + name: tensor for name, tensor in state.items()}


def dino(state):
    return {"teacher": {**prefixed(state, "backbone."), "head.mlp.0.weight": torch.ones(2, 2)}, "epoch": 3}


def moco(state):
    both = {**prefixed(state, "module.base_encoder."), **prefixed(state, "module.momentum_encoder.")}
    return {"state_dict": {**both, "module.predictor.0.weight": torch.ones(2)}, "arch": "vit_base"}


def mae(state):
    return {"model": {**state, "head.weight": torch.ones(10, 24), "head.bias": torch.ones(10)}}


def distributed(state):
    return OrderedDict(prefixed(state, "module.backbone."))


@pytest.mark.parametrize("wrap", [dict, dino, moco, mae, distributed])
def test_wrapped_checkpoints_load(wrap, tmp_path):
    source, model = small_vit(seed=1), small_vit(seed=2)
    torch.save(wrap(source.state_dict()), tmp_path / "weights.pth")
    load_weights(model, tmp_path / "weights.pth")
    assert fingerprint(model) == fingerprint(source)


def test_safetensors_load(tmp_path):
    source, model = small_vit(seed=1), small_vit(seed=2)
    save_file(source.state_dict(), tmp_path / "weights.safetensors")
    load_weights(model, tmp_path / "weights.safetensors")
    assert fingerprint(model) == fingerprint(source)


def test_names_of_the_original_dinov2_release_become_those_of_timm(tmp_path):
    options = {"depth": 1, "embed_dim": 24, "num_heads": 2, "img_size": 28, "num_classes": 0}
    source, model = (timm.create_model("vit_small_patch14_reg4_dinov2", **options) for _ in range(2))
    state = dict(source.state_dict())
    state["register_tokens"] = state.pop("reg_token")
    state["mask_token"] = torch.zeros(1, 24)
    state["pos_embed"] = torch.cat([torch.zeros(1, 1, 24), state["pos_embed"]], 1)
    torch.save(state, tmp_path / "dinov2.pth")
    load_weights(model, tmp_path / "dinov2.pth")
    images = torch.rand(1, 3, 28, 28)
    torch.testing.assert_close(model.eval()(images), source.eval()(images))


class RunsCode:
    def __reduce__(self):
        return (print, ("code was run",))


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_pickle_that_needs_code_is_refused_and_not_run(is_zip, tmp_path, capsys):
    file = tmp_path / "model.pt"
    torch.save({"a": torch.ones(1), "b": RunsCode()}, file, _use_new_zipfile_serialization=is_zip)
    with pytest.raises(DataError, match="could run code"):
        read_state(file)
    assert "code was run" not in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("content", [b"", b"hello world" * 10, pickle.dumps([1, 2], protocol=2)])
def test_damaged_files_are_refused(suffix, content, tmp_path):
    file = tmp_path / f"weights{suffix}"
    file.write_bytes(content)
    with pytest.raises(DataError, match="weights"):
        read_state(file)


def test_a_file_without_tensors_is_refused(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "a.pth")
    with pytest.raises(DataError, match="no named tensors"):
        read_state(tmp_path / "a.pth")
    torch.save(torch.ones(3), tmp_path / "b.pth")
    with pytest.raises(DataError, match="holds a Tensor"):
        read_state(tmp_path / "b.pth")


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(ResourceError, match=r"weights file .*a\.pth not found"):
        read_state(tmp_path / "a.pth")
    (tmp_path / "a.zip").write_bytes(b"x")
    with pytest.raises(DataError, match=r"expected \.safetensors"):
        read_state(tmp_path / "a.zip")


def test_wrong_shapes_name_the_first_three_tensors(tmp_path):
    torch.save(small_vit(embed_dim=36).state_dict(), tmp_path / "a.pth")
    with pytest.raises(DataError) as caught:
        load_weights(small_vit(), tmp_path / "a.pth")
    message = str(caught.value)
    assert "cls_token: expected 1x1x24, found 1x1x36; pos_embed: expected 1x5x24, found 1x5x36; " in message
    assert message.count("expected") == 3


def test_a_deeper_model_of_the_same_width_does_not_pass(tmp_path):
    torch.save(small_vit(depth=2).state_dict(), tmp_path / "a.pth")
    with pytest.raises(DataError, match=r"blocks\.1\.norm1\.weight: expected nothing, found 24"):
        load_weights(small_vit(), tmp_path / "a.pth")


def test_another_network_does_not_pass(tmp_path):
    torch.save(timm.create_model("mobilenetv3_small_050", num_classes=0).state_dict(), tmp_path / "a.pth")
    with pytest.raises(DataError, match="found nothing"):
        load_weights(small_vit(), tmp_path / "a.pth")


def test_the_fingerprint_sees_values_names_and_shapes_but_not_the_memory_format():
    model = torch.nn.Conv2d(3, 4, 3)
    before = fingerprint(model)
    assert fingerprint(model.to(memory_format=torch.channels_last)) == before
    assert fingerprint(torch.nn.Sequential(model)) != before
    model.bias.data[0] += 1
    assert fingerprint(model) != before
