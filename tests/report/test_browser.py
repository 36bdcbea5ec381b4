"""The page in a real browser that cannot reach the network."""

from __future__ import annotations

import json

import pytest

from nngcd.report.page import write_report

pytestmark = pytest.mark.slow

WIDTHS = (1440, 500, 400)
EVIL = "<script>window.hacked = true</script>"
INKED = """const c = document.getElementById("canvas");
const p = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
let n = 0; for (let i = 3; i < p.length; i += 4) n += p[i] > 0; return n;"""
DECODED = """const done = arguments[0], all = [...document.querySelectorAll(".thumb img")];
for (const image of all) image.loading = "eager";
Promise.all(all.map((image) => image.decode())).then(
  () => done(all.map((image) => image.naturalWidth)), (error) => done(String(error)));"""
SHOWN = """return [...document.querySelectorAll(".card")].filter((c) => c.offsetHeight > 0).map((c) => c.dataset.id)"""


def set_width(browser, width):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def choose(browser, field, value):
    browser.execute_script(
        "const f = document.getElementById(arguments[0]); f.value = arguments[1]; f.dispatchEvent(new Event('input'))",
        field, value,
    )  # fmt: skip


def wait_for_frame(browser):
    browser.execute_async_script("const d = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(d))")


def requested(browser):
    for line in browser.get_log("performance"):
        message = json.loads(line["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def check_cards(browser, new, known):
    assert browser.execute_script(SHOWN) == new + known
    choose(browser, "filter", "new")
    assert browser.execute_script(SHOWN) == new
    assert browser.execute_script("return document.getElementById('count').textContent") == "2 of 4 categories"
    choose(browser, "search", "002")
    assert browser.execute_script(SHOWN) == ["new-002"]
    choose(browser, "search", "")
    choose(browser, "filter", "all")
    choose(browser, "sort", "size")
    assert browser.execute_script(SHOWN) == known + new


def check_map(browser):
    before = browser.execute_script(INKED)
    browser.execute_script("document.getElementById('zoom-in').click()")
    wait_for_frame(browser)
    assert browser.execute_script(INKED) != before
    choose(browser, "colour", "status")
    assert browser.execute_script("return document.querySelectorAll('#legend li').length") == 2
    browser.execute_script("const [x, y] = map.place(0); map.hover(map.nearest(x, y, 5))")
    tip = browser.execute_script(
        "const t = document.getElementById('tip'); return [t.innerText, t.querySelector('img')]"
    )
    assert EVIL in tip[0]
    assert tip[1] is not None


def check_details(browser):
    browser.execute_script("document.querySelector('.thumb').click()")
    assert browser.execute_script("return document.getElementById('details').open")
    assert EVIL in browser.execute_script("return document.getElementById('details-name').textContent")
    press = "document.getElementById('details').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))"
    browser.execute_script(press)
    assert browser.execute_script("return details.at") == 1
    browser.execute_script("document.getElementById('details-close').click()")
    assert not browser.execute_script("return document.getElementById('details').open")


def test_the_page_works_without_a_network(findings, tmp_path, browser):
    page = write_report(findings, tmp_path / "report.html").path
    n_pictures = page.read_text(encoding="utf-8").count('class="thumb"')
    assert n_pictures > 30
    for width in WIDTHS:
        set_width(browser, width)
        browser.get(page.as_uri())
        wait_for_frame(browser)
        across = browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert across[0] <= across[1] == width
        menu = browser.execute_script("const n = document.querySelector('nav'); return [n.scrollWidth, n.clientWidth]")
        assert menu[0] <= menu[1], "the menu wraps"
        assert browser.execute_script(INKED) > 100
        widths = browser.execute_async_script(DECODED)
        assert len(widths) == n_pictures
        assert min(widths) > 0
    check_cards(browser, new=["new-001", "new-002"], known=findings.categories["id"][:2].tolist())
    check_map(browser)
    check_details(browser)
    assert browser.execute_script("return window.hacked") is None
    # The one thing the browser may complain of is this test, which reads the canvas more than once.
    assert [line for line in browser.get_log("browser") if "Multiple readback" not in line["message"]] == []
    # chrome: and chrome-untrusted: are pages of the browser itself.
    assert {url.split(":", 1)[0] for url in requested(browser)} <= {"file", "data", "chrome", "chrome-untrusted"}
