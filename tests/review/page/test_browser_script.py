"""A long review by keyboard; killed servers, other windows, no graphics card; and what axe says of every screen."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from generated_runs import generated_run

from nngcd.core.run_folder import RunFolder
from nngcd.review.edit_log import EditLog
from nngcd.review.session import Review

pytestmark = pytest.mark.slow
AXE = Path(__file__).with_name("axe-core") / "axe.min.js"
PROGRAM = [sys.executable, "-c", "from nngcd.cli import program; program()", "review"]
N_CATEGORIES, N_IMAGES = 48, 1200
MOST_KEYS = 150
SCREENS = {
    "queue": ".queue .cell",
    "same": ".same h2",
    "split": ".split h2",
    "unsure": ".unsure .choice",
    "map": ".map .legend button",
    "table": ".table tbody tr",
    "log": ".log h2",
    "learn": ".learn h2",
}
NO_WEBGL = """
const before = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
  return kind === 'webgl2' ? null : before.call(this, kind, ...rest);
};
"""
NO_EVENTS = "window.EventSource = class { set onmessage(told) {} };"
VIOLATIONS = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => window.violations.push(event.violatedDirective));
"""
PAINTED = """(() => {
  const canvas = document.querySelector('.chart canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((value, i) => i % 4 === 3 && value).length;
})()"""

SAME_AS_A_CANVAS = """
const done = arguments[0], [width, height] = [90, 60];
const star = [...Array(5).keys()].map((i) => [45 + 40 * Math.cos(i * 2.513), 30 + 40 * Math.sin(i * 2.513)]);
const eight = [...Array(40).keys()].map((i) => [45 + 30 * Math.sin(i / 6.4), 30 + 20 * Math.sin(i / 3.2)]);
const [within, beyond] = [[[5.2, 4.1], [80.7, 10.3], [20.9, 50.6]], [[-30.4, -20.1], [120.3, 30.7], [-10.2, 90.6]]];
const lines = [within, star, eight, beyond, [[3.1, 4.2]]];
import('/assets/picking.js').then(({ filled }) => done(lines.map((line) => {
  const path = new Path2D(), context = document.createElement('canvas').getContext('2d');
  line.forEach(([x, y]) => path.lineTo(x, y));
  const pixels = filled(line, width, height);
  const expected = pixels.map((_, i) => context.isPointInPath(path, i % width + 0.5, Math.floor(i / width) + 0.5));
  return [pixels.filter((one, i) => one !== expected[i]).length, pixels.reduce((a, b) => a + b, 0)];
})));
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    generated_run(folder, n_images=N_IMAGES, n_categories=N_CATEGORIES, n_features=16)
    return folder


@pytest.fixture
def generated(made):
    """A run of 48 categories, 36 of them new, each of about 15 images; without edits."""
    import shutil

    shutil.rmtree(made / "run" / "review", ignore_errors=True)
    return RunFolder(made / "run")


def before_each_page(browser, script):
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})


def open_page(person, client, screen="queue"):
    person.browser.get(f"{client.door.link}#{screen}")
    person.wait(f"document.querySelector({SCREENS[screen]!r})")


def rename(person, name):
    from selenium.webdriver.common.keys import Keys

    person.press("r")
    person.wait("document.getElementById('dialog').open")
    person.type(name)
    person.press(Keys.ENTER)
    person.wait(f"document.querySelector('.queue .name')?.textContent === {name!r}")


def until_next(person, key, said):
    """Press a key that settles a category, and wait for the one that follows."""
    before = person.name()
    person.press(key)
    person.wait_said(said)
    person.wait(
        f"document.querySelector('.queue .name')?.textContent !== {before!r} && !document.querySelector('.split')"
    )


def until_version(client, version):
    """Wait for the log; keys that are pressed before the page has shown it wait in the page."""
    stop = time.monotonic() + 300
    while client.page.desk.version < version:
        assert time.monotonic() < stop
        time.sleep(0.005)


def move_five(person, client):
    """Put the five most doubtful images into the nearest category."""
    from selenium.webdriver.common.keys import Keys

    version = client.page.desk.version
    person.press(Keys.ARROW_RIGHT)
    for _ in range(4):
        person.shift(Keys.ARROW_RIGHT)
    person.press("1")
    until_version(client, version + 1)


def reject_five(person, client):
    from selenium.webdriver.common.keys import Keys

    version = client.page.desk.version
    person.press(Keys.ARROW_RIGHT, *"xxxxx")
    until_version(client, version + 5)


def split(person):
    from selenium.webdriver.common.keys import Keys

    name = person.name()
    person.press("s")
    person.wait("document.querySelectorAll('.split .side').length === 2")
    person.press(Keys.ENTER)
    person.wait_said(f"Split {name}")
    # The queue comes back as it was, and then shows the next category.
    person.wait(f"(document.querySelector('.queue .name')?.textContent ?? {name!r}) !== {name!r}")


def undo_all(person, client, n_edits):
    for n in range(1, n_edits + 1):
        person.press("u")
        person.wait(f"document.getElementById('undo').disabled === {'true' if n == n_edits else 'false'}")
        until_version(client, n_edits + n)


def test_thirty_categories_in_150_keys_and_undone_to_the_start(generated, start, person):
    before_each_page(person.browser, VIOLATIONS)
    client = start(generated)
    first = client.page.desk.review.state
    open_page(person, client)
    for number in range(24):
        if number < 20:
            rename(person, f"species {number}")
        if number < 8:
            move_five(person, client)
        elif number < 10:
            reject_five(person, client)
        until_next(person, "a", "Approved")
    for _ in range(4):
        until_next(person, "4", "Merged")
    split(person)
    split(person)
    assert person.n_keys <= MOST_KEYS
    edits = list(client.page.desk.review.log.edits)
    counts = {op: sum(edit.op == op for edit in edits) for op in ("rename", "move", "reject", "merge", "split")}
    assert counts == {"rename": 20, "move": 8, "reject": 10, "merge": 4, "split": 2}
    assert sum(len(edit.args["images"]) for edit in edits if edit.op == "move") == 40
    assert Review(generated).state == client.page.desk.review.state
    assert len(edits) >= 50
    undo_all(person, client, len(edits))
    assert Review(generated).state == first
    assert person.see("window.violations") == []
    assert person.see("document.images.length <= 400")


def test_a_killed_server_keeps_what_the_page_said_was_done(generated, person):
    program = subprocess.Popen([*PROGRAM, str(generated.path), "--no-browser", "--port", "0"], text=True,
                               stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})  # fmt: skip
    try:
        while not (found := re.search(r"http://\S+", line := program.stdout.readline())):
            assert line, "the program ended"
        person.browser.get(found[0])
        person.wait("document.querySelector('.queue .cell')")
        for _ in range(10):
            until_next(person, "a", "Approved")
        program.send_signal(signal.SIGKILL)
        program.wait()
        person.press("a")
        person.wait_said("The server does not answer")
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
    assert [edit.op for edit in EditLog(generated.edits).edits] == ["approve"] * 10


def test_a_window_that_has_heard_nothing_is_refused_and_catches_up(generated, start, person):
    before_each_page(person.browser, NO_EVENTS)
    client = start(generated)
    open_page(person, client)
    name = person.name()
    assert client.edit({"op": "rename", "category": name, "name": "done elsewhere"})[0] == 200
    person.press("a")
    person.wait_said("another window")
    person.wait("document.querySelector('.queue .name')?.textContent === 'done elsewhere'")
    assert client.page.desk.version == 1, "the key on the old view did nothing"
    until_next(person, "a", "Approved “done elsewhere”")
    assert client.page.desk.version == 2


def test_a_closed_browser_leaves_everything_in_the_log(generated, start, person):
    client = start(generated)
    open_page(person, client)
    until_next(person, "a", "Approved")
    person.browser.get("about:blank")
    assert [edit.op for edit in Review(generated).log.edits] == ["approve"]
    open_page(person, client)  # the same link opens the page again
    assert person.see("document.getElementById('progress').textContent").startswith("1 of ")


@pytest.mark.parametrize("script", ["", NO_WEBGL])
def test_the_map_selects_and_edits_with_and_without_a_graphics_card(generated, start, person, script):
    from selenium.webdriver.common.keys import Keys

    before_each_page(person.browser, script)
    client = start(generated)
    open_page(person, client, "map")
    kind = person.wait("document.querySelector('.chart').dataset.drawnBy")
    if script:
        assert kind == "2d"
        assert person.wait(PAINTED) > N_IMAGES
    person.press("+", "+", " ")
    person.wait("document.querySelector('.picked .cell')")
    n_chosen = int(person.see("document.querySelector('.picked .chosen').textContent").split()[1].replace(",", ""))
    assert 0 < n_chosen < N_IMAGES
    person.press("x")
    person.wait_said(f"Rejected {n_chosen} image")
    assert len(Review(generated).state.rejected) == n_chosen
    person.press(Keys.ESCAPE, "u")
    person.wait_said("Undone")
    assert Review(generated).state.rejected == []


def test_a_line_on_the_map_encloses_what_a_canvas_would_fill(generated, start, person):
    client = start(generated)
    open_page(person, client)
    found = person.browser.execute_async_script(SAME_AS_A_CANVAS)
    assert max(n_different for n_different, _ in found) <= 1, "a centre on the line may be rounded to either side"
    assert [n_inside > 500 for _, n_inside in found] == [True, True, True, True, False]


def test_a_line_drawn_with_the_mouse_selects_the_points_inside(generated, start, person):
    from selenium.webdriver.common.action_chains import ActionChains

    client = start(generated)
    open_page(person, client, "map")
    person.wait("document.querySelector('.legend button')")
    chart = person.browser.find_element("css selector", ".map .chart")
    width, height = chart.size["width"] // 4, chart.size["height"] // 4
    pen = ActionChains(person.browser).move_to_element_with_offset(chart, -width, -height).click_and_hold()
    for x, y in ((2 * width, 0), (0, 2 * height), (-2 * width, 0)):
        pen.move_by_offset(x, y)
    pen.release().perform()
    person.wait_said("images selected")
    assert 0 < int(person.see("document.getElementById('said').textContent").split()[0].replace(",", "")) < N_IMAGES


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(generated, start, person, scheme):
    client = start(generated)
    person.browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    axe = AXE.read_text(encoding="utf-8")
    assert client.edit({"op": "approve", "category": "known 0001"})[0] == 200
    serious = []
    for screen, part in SCREENS.items():
        person.browser.get(client.door.link)
        person.browser.execute_script("location.hash = arguments[0]", screen)
        person.wait(f"document.querySelector({part!r})")
        serious += [(screen, *found) for found in serious_findings(person, axe)]
    open_page(person, client)
    person.browser.execute_script("document.getElementById('screen').append(document.createElement('button'))")
    assert [name for name, *_ in serious_findings(person, axe)] == ["button-name"], "axe does look"
    person.browser.execute_script("document.getElementById('screen').lastChild.remove()")
    for key, part in (("?", "dialog .keys"), ("r", "dialog .names li")):
        person.press(key)
        person.wait(f"document.querySelector({part!r})")
        serious += [(part, *found) for found in serious_findings(person, axe)]
        person.browser.execute_script("document.getElementById('dialog').close()")
    assert serious == []


def serious_findings(person, axe):
    person.browser.execute_script(axe)
    found = person.browser.execute_async_script(
        "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then(({violations}) => done(violations))"
    )
    return [(one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"][:300]) for one in found
            if one["impact"] in ("serious", "critical")]  # fmt: skip
