"""What figures are given of a run folder."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from finished_runs import scores, summary

from nngcd.core.files import write_json, write_table, write_tensors, write_yaml
from nngcd.core.run_folder import RunFolder
from nngcd.datasets.opening import open_dataset
from nngcd.research.drawing import RunData, Subject
from nngcd.research.figures import attention
from nngcd.research.figures.subject import UndrawableError
from nngcd.training.model import Blueprint, Model, build_backbone

FACTS = {"method": "nngcd", "preset": "paper", "effort": "quick", "backbone": "dino", "seed": 3, "k": 4}


class Opened:
    """Data as they were found."""

    def __init__(self, split=None, true_name=None, reason=""):
        self.opened = split, true_name, reason


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path)
    scored = scores(accuracy={"all": 51.07, "old": 61.71, "new": None})
    write_json(folder.summary, summary(**FACTS, n_images=5000, n_labelled=2, scores=scored))
    write_yaml(folder.config, {"data": "/there/birds", "dataset": None, "method": "nngcd", "preset": "paper",
                               "effort": "quick", "weights": "/here/mine.pth", "reading": {}})  # fmt: skip
    write_json(folder.model / "categories.json", {"categories": ["owl", "ant", "new-001", "new-002"], "n_known": 2})
    names = list("abcde")
    table = {"file_name": names, "image_id": names, "label_given": None, "status": "new", "confidence": 0.5,
             "label": "owl", "novelty": 0.5, "possible_label_error": False,
             "category": ["owl", "new-001", "owl", "new-001", "ant"]}  # fmt: skip
    write_table(folder.results, pd.DataFrame(table))
    write_tensors(folder.features, {"features_nd": torch.eye(5).half()})
    return folder


def vit(folder):
    """Save a small random ViT whose last block has been trained, as it were; return it."""
    blueprint = Blueprint(
        backbone="vit_tiny_patch16_224", effort="normal", tail_blocks=1, image_size=32, method="kmeans", loss={},
        n_features=None, n_clusters=3, n_old=2,
    )  # fmt: skip
    model = Model.assemble(blueprint, build_backbone(blueprint, pretrained=False), seed=0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.backbone.tail.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    model.save(folder.model, ["a", "b", "c"])
    return model


def test_the_facts_of_a_run_in_one_line(run):
    facts = Subject(run, Opened(), "ours", ()).facts
    assert facts == (
        "ours: method nngcd, preset paper, effort quick, backbone dino with the weights mine.pth, data birds, seed 3, "
        "K = 4, 5,000 images, 2 of them labelled, accuracy of the unlabelled: all 51.1, old 61.7."
    )


def test_true_classes_are_taken_where_they_are_known_old_ones_first(run):
    true_name = np.array(["owl", "bee", "owl", "cat", "ant"], dtype=object)
    grouping = Subject(run, Opened(true_name=true_name), "ours", ()).grouping
    assert grouping.names == ("ant", "owl", "bee", "cat")
    assert grouping.class_n.tolist() == [1, 2, 1, 3, 0]
    assert (grouping.n_old, grouping.are_true) == (2, True)


def test_otherwise_the_found_categories_are(run):
    grouping = Subject(run, Opened(), "ours", ()).grouping
    assert grouping.names == ("ant", "owl", "new-001")
    assert (grouping.class_n.tolist(), grouping.are_true) == ([1, 2, 1, 2, 0], False)


def test_data_that_are_gone_are_a_reason_and_no_error(run):
    split, true_name, reason = RunData(run).opened
    assert split is None
    assert true_name is None
    assert "/there/birds" in reason


def test_attention_is_that_of_the_trained_block(run, image_folder):
    model = vit(run)
    split, _ = open_dataset(str(image_folder))
    found = Subject(run, Opened(split), "ours", ()).attention([0, 13])
    prepare, seen = model.backbone.preprocessing, []
    views = torch.stack([prepare.centre_view(split.images.open(row)) for row in (0, 13)])
    last = model.backbone.tail.network.blocks[-1]
    last.attn.fused_attn = False
    last.attn.attn_drop.register_forward_hook(lambda _, inputs, output: seen.append(output))
    with torch.no_grad():
        last(model.backbone.trunk(prepare.normalise(views)))
    assert (found.views_bhwc == views.permute(0, 2, 3, 1).numpy()).all()
    np.testing.assert_allclose(found.maps_bhpp, seen[0][:, :, 0, 1:].unflatten(-1, (2, 2)), rtol=1e-4)


def test_without_its_images_attention_is_not_drawn(run):
    vit(run)
    with pytest.raises(UndrawableError, match="it needs the images: no such folder"):
        Subject(run, Opened(reason="no such folder"), "ours", ()).attention([0])


@pytest.mark.parametrize(
    ("backbone", "n_features", "reason"),
    [("resnet10t", None, "ours: ResNet is not a ViT"), ("features", 8, "ours was made from features")],
)
def test_a_backbone_without_attention_is_refused_before_the_images_are_opened(run, backbone, n_features, reason):
    blueprint = Blueprint(
        backbone=backbone, effort="quick", tail_blocks=1, image_size=None, method="kmeans", loss={},
        n_features=n_features, n_clusters=3, n_old=2,
    )  # fmt: skip
    Model.assemble(blueprint, build_backbone(blueprint, pretrained=False), seed=0).save(run.model, ["a", "b", "c"])
    with pytest.raises(UndrawableError, match=reason):
        attention.draw([Subject(run, None, "ours", ())])
