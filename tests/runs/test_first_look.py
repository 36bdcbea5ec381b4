"""A fit reads each large image once, and ends as one that decodes it again."""

from contextlib import nullcontext

import pytest

from nngcd import pipeline
from nngcd.core.errors import UserError
from nngcd.data import image_files, sightings


@pytest.fixture
def decoded(monkeypatch):
    """As many items as images were decoded after their first look; all images count as large."""
    monkeypatch.setattr(sightings, "LARGE", 100)
    decode, decoded = image_files.decode_rgb, []
    monkeypatch.setattr(image_files, "decode_rgb", lambda *a, **k: decoded.append(1) or decode(*a, **k))
    return decoded


@pytest.fixture
def fit(image_folder, tmp_path, monkeypatch, decoded):
    """Fit the pictures; return the features' bytes, and how often one was decoded for them."""

    def run(name, **more):
        monkeypatch.setenv("NNGCD_HOME", str(tmp_path / f"home-{name}"))
        decoded.clear()
        settings = {"data": str(image_folder), "k": 3, "method": "kmeans", "workers": 0, **more}
        folder = pipeline.run(settings["data"], settings, out=tmp_path / name, report=False)
        return (folder.path / "features.safetensors").read_bytes(), len(decoded)

    return run


@pytest.mark.slow
def test_each_large_image_is_decoded_once_and_the_features_stay_the_same(fit, monkeypatch):
    at_first_look, n_decoded = fit("now", views={"sizes": [1.0, 1.25]})
    monkeypatch.setattr(pipeline, "shrinking", lambda settings: nullcontext())
    again, n_decoded_again = fit("before", views={"sizes": [1.0, 1.25]})
    assert (n_decoded, n_decoded_again) == (0, 30)
    assert at_first_look == again


def test_a_network_that_is_not_there_is_refused_at_the_first_look(fit):
    with pytest.raises(UserError, match="unknown backbone 'resnet0'"):
        fit("none", backbone="resnet0")


@pytest.mark.slow
def test_an_estimate_decodes_each_large_image_once(nngcd, image_folder, tmp_path, monkeypatch, decoded):
    monkeypatch.setenv("NNGCD_HOME", str(tmp_path / "home"))
    flags = ["--image-size", "32", "--workers", "0", "--out", tmp_path / "k", "--json"]
    code, _, err = nngcd("estimate-k", image_folder, "--k", "2..4", *flags)
    assert (code, decoded) == (0, []), err
