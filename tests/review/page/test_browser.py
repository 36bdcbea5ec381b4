"""The page in a real browser that reaches nothing but this machine, by keyboard."""

import hashlib
import shutil
import time

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from nngcd.core.files import write_json, write_table, write_tensors, write_yaml
from nngcd.core.run_folder import RunFolder
from nngcd.data.split import image_table
from nngcd.review.session import Review

pytestmark = pytest.mark.slow
EVIL = "<img src=x onerror=window.hacked=true>"
N_EACH, N_CATEGORIES = 8, 12


@pytest.fixture
def large_run(tmp_path, run):
    """Twelve categories of eight images; two known. Every third image of a new one is unsure."""
    rng, data = np.random.default_rng(0), tmp_path / "many"
    data.mkdir()
    ids = ["owl", "crow", *(f"new-{i:03d}" for i in range(1, N_CATEGORIES - 1))]
    rows = []
    for number, id_ in enumerate(ids):
        for i in range(N_EACH):
            path = data / f"{number:02d}-{i}.png"
            colour = np.array([number * 20, 255 - number * 20, (number * 70) % 255])
            pixels = np.clip(colour + rng.integers(-20, 20, size=(24, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(path)
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            is_known = number < 2
            rows.append({
                "file_name": path.name, "image_id": str(image_table([path.name], [content])["image_id"][0]),
                "label_given": id_ if is_known and i < 2 else None, "category": id_, "label": id_,
                "status": "known" if is_known else "unsure" if i % 3 == 0 else "new",
                "confidence": 0.4 + 0.05 * i,
                "novelty": 0.5, "possible_label_error": False,
                "alt_1": "owl", "alt_1_p": 0.1, "split": None, "group": None,
            })  # fmt: skip
    made = RunFolder.create(tmp_path / "large")
    table = pd.DataFrame(rows).astype({"label_given": "object"})
    features = np.repeat(np.eye(N_CATEGORIES), N_EACH, axis=0) + 0.1 * rng.normal(size=(len(rows), N_CATEGORIES))
    write_yaml(made.config, {"data": str(data), "dataset": None, "method": "kmeans", "preset": "default",
                             "effort": "quick", "weights": None, "k": N_CATEGORIES,
                             "reading": {"round": 1}})  # fmt: skip
    write_table(made.results, table)
    write_tensors(made.features, {"features_nd": torch.tensor(features).half()})
    write_json(made.model / "categories.json", {"categories": ids, "n_known": 2})
    shutil.copy(run.summary, made.summary)
    return made


def test_a_review_by_keyboard_alone(large_run, start, person):
    from selenium.webdriver.common.keys import Keys

    client = start(large_run)
    first = client.page.desk.review.state
    person.browser.get(client.door.link)
    person.wait("document.querySelectorAll('.queue .cell').length")
    assert "t=" not in person.browser.current_url
    for name in (EVIL, "heron", "stork"):
        before = person.name()
        person.press("r")
        person.wait("document.getElementById('dialog').open")
        person.type(name)
        person.press(Keys.ENTER)
        person.wait(f"document.querySelector('.queue .name')?.textContent === {name!r}")
        person.press("a")
        person.wait_said("Approved")
        person.wait(f"document.querySelector('.queue .name')?.textContent !== {name!r}")
        assert person.name() != before
    person.press(Keys.ARROW_RIGHT)
    person.shift(Keys.ARROW_RIGHT)
    person.wait("document.querySelectorAll('.cell[aria-selected=true]').length === 2")
    person.press("1")
    person.wait_said("Moved 2 images")
    person.wait("document.querySelectorAll('.queue .cell').length === 6")
    person.press(Keys.ARROW_RIGHT, "x")
    person.wait_said("Rejected 1 image")
    person.press("s")
    person.wait("document.querySelectorAll('.split .side').length === 2")
    person.press(Keys.ENTER)
    person.wait_said("Split")
    person.wait("document.querySelectorAll('.queue .cell').length")
    person.press("4")
    person.wait_said("Merged")
    ops = [edit.op for edit in client.page.desk.review.log.edits]
    assert ops == ["rename", "approve"] * 3 + ["move", "reject", "split", "merge"]
    assert person.n_keys == 3 * 3 + 3 + 2 + 2 + 1
    assert person.see("window.hacked") is None
    for left in range(len(ops), 0, -1):
        person.press("u")
        person.wait(f"document.getElementById('undo').disabled === {'true' if left == 1 else 'false'}")
        while client.page.desk.version < 2 * len(ops) - left + 1:
            time.sleep(0.02)
        person.wait("document.getElementById('said').textContent === 'Undone.'")
    assert Review(large_run).state == first
    refused = [line["message"] for line in person.browser.get_log("browser") if "/img/" not in line["message"]]
    assert refused == [], "no complaint, of the content security policy or any other"


def test_a_name_that_exists_offers_the_merge(large_run, start, person):
    from selenium.webdriver.common.keys import Keys

    client = start(large_run)
    person.browser.get(client.door.link)
    person.wait("document.querySelectorAll('.queue .cell').length")
    person.press("r")
    person.wait("document.getElementById('dialog').open")
    person.type("owl")
    person.press(Keys.ENTER)
    person.wait("document.getElementById('dialog-title')?.textContent === 'Merge the two?'")
    assert client.page.desk.version == 0
    person.press(Keys.ENTER)
    person.wait_said("Merged")
    assert client.page.desk.index.size("owl") == 2 * N_EACH


def test_every_screen_fits_a_telephone_and_answers_its_keys(large_run, start, person):
    client = start(large_run)
    person.browser.get(client.door.link)
    person.wait("document.querySelectorAll('.queue .cell').length")
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    person.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    waits = {"same": ".same .side", "unsure": ".unsure .choice", "table": ".table tbody tr", "log": ".log h2",
             "split": ".split h2", "queue": ".queue .cell"}  # fmt: skip
    for screen, part in waits.items():
        person.browser.execute_script("location.hash = arguments[0]", screen)
        person.wait(f"document.querySelector({part!r})")
        assert person.see("document.documentElement.scrollWidth <= window.innerWidth"), screen
        assert person.see("document.querySelectorAll('img').length <= 400")
    person.browser.execute_script("location.hash = 'same'")
    person.wait("document.querySelector('.same .side')")
    person.press("n")
    person.wait_said("apart")
    person.browser.execute_script("location.hash = 'unsure'")
    before = person.wait("document.querySelector('.unsure .large img')?.src")
    person.press("2")
    person.wait_said("Moved 1 image to owl")
    person.wait(f"document.querySelector('.unsure .large img')?.src !== {before!r}")
    person.press("?")
    person.wait("document.querySelector('dialog .keys')")
    assert [edit.op for edit in client.page.desk.review.log.edits] == ["apart", "move"]


def test_a_second_window_catches_up(large_run, start, person):
    client = start(large_run)
    person.browser.get(client.door.link)
    first = person.wait("document.querySelector('.queue .name')?.textContent")
    assert client.edit({"op": "rename", "category": first, "name": "elsewhere"})[0] == 200
    person.wait("document.querySelector('.queue .name')?.textContent === 'elsewhere'")
