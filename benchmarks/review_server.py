"""The review page on large generated runs: server and browser, each number against its target.

python benchmarks/review_server.py                # 100,000 images in Chromium, and the start of a run of 1,000,000
python benchmarks/review_server.py --short        # 5,000 and 20,000 images: does everything run?
python benchmarks/review_server.py --assert       # exit code 1 if a target is missed

Runs are written below --folder (a temporary one by default; 1,000,000 images need 4 GB). Needs chromium, chromedriver.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from measuring import Target, end, parser_with_targets

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "datasets"))

from generated_runs import generated_run  # noqa: E402  # lies with the tests, which use it as well

from nngcd.core.run_folder import RunFolder  # noqa: E402

PROGRAM = [sys.executable, "-c", "from nngcd.cli import program; program()", "review"]
LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/\?t=(\S+)")
N_KEYS, N_EDITS, N_MERGES, N_LASSOS = 60, 100, 5, 10
N_FEATURES = 384
SECONDS_TO_WAIT = 120
SECONDS_TO_LOOK = 0.3
"""A person who looks before the next key or lasso; at this pace categories of 80 images are 16,000 a minute."""
FLAGS = ("--headless", "--no-sandbox", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
         "--disable-component-update", "--window-size=1440,1000", "--use-angle=swiftshader")  # fmt: skip
WATCH = """
window.times = [];
window.seen = document.querySelector('.queue .name').textContent;
addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
new MutationObserver(() => {
  const name = document.querySelector('.queue .name')?.textContent;
  if (!name || name === window.seen) return;
  window.seen = name;
  requestAnimationFrame(() => window.times.push(performance.now() - window.pressed));
}).observe(document.getElementById('screen'), {childList: true, subtree: true, characterData: true});
"""
OPEN_MAP = """
const done = arguments[0], started = performance.now();
const isReady = () => document.querySelector('.map .chart[data-drawn-by]') && document.querySelector('.legend button');
const look = () => isReady() ? requestAnimationFrame(() => done(performance.now() - started))
  : requestAnimationFrame(look);
location.hash = 'map';
look();
"""
LASSO = """
const done = arguments[2];
const box = arguments[0].getBoundingClientRect(), share = arguments[1];
const at = (type, x, y, buttons) => arguments[0].dispatchEvent(new PointerEvent(type, {bubbles: true, pointerId: 1,
  clientX: box.left + x * box.width, clientY: box.top + y * box.height, button: 0, buttons}));
const low = 0.5 - share / 2, high = 0.5 + share / 2;
at('pointerdown', low, low, 1);
for (const [x, y] of [[high, low], [high, high], [low, high], [low, low + 0.01]])
  for (let i = 0; i < 25; i++) at('pointermove', x, y + i / 5000, 1);
const started = performance.now();
at('pointerup', low, low, 0);
requestAnimationFrame(() => done(performance.now() - started));
"""


class Server:
    """A started `nngcd review`, and how to ask it."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        started = time.perf_counter()
        self.process = subprocess.Popen([*PROGRAM, str(run.path), "--no-browser", "--port", "0"], text=True,
                                        stdout=subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": "1"})  # fmt: skip
        assert self.process.stdout is not None
        while (found := LINK.search(line := self.process.stdout.readline())) is None:
            if not line:
                sys.exit("nngcd review ended at once")
        self.link, self.port, self.token = found[0], int(found[1]), found[2]
        self.ask("/api/run")
        self.seconds_to_start = time.perf_counter() - started

    def ask(self, path: str, body: object = None) -> dict[str, Any]:
        """Return the answer to a request; with a body, it is a POST."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_TO_WAIT)
        headers = {"Cookie": f"nngcd_review_{self.port}={self.token}", "Origin": f"http://127.0.0.1:{self.port}",
                   "Content-Type": "application/json"}  # fmt: skip
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, content, headers)
        answer = connection.getresponse()
        values: dict[str, Any] = json.loads(answer.read())
        connection.close()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status} {values}")
        return values

    def edit(self, **change: object) -> float:
        """Make an edit; return the milliseconds until it is answered."""
        version = self.ask("/api/run")["version"]
        started = time.perf_counter()
        self.ask("/api/edits", {"version": version, "changes": [change]})
        return 1000 * (time.perf_counter() - started)

    def undo(self) -> None:
        """Take back the last edit."""
        self.ask("/api/undo", {"version": self.ask("/api/run")["version"]})

    def megabytes(self, line: str = "VmHWM") -> float:
        """Return the most memory that the server has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        return int(re.findall(rf"{line}:\s+(\d+)", status)[0]) / 1000


@contextmanager
def serving(run: RunFolder) -> Iterator[Server]:
    """Give the server of a run; edits of an earlier measurement are forgotten, and the map if there is one."""
    shutil.rmtree(run.path / "review", ignore_errors=True)
    server = Server(run)
    try:
        yield server
    finally:
        server.process.terminate()
        server.process.wait()


@contextmanager
def chromium() -> Iterator[Any]:
    """Give a browser."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield browser
        finally:
            browser.quit()


def wait(browser: Any, what: str) -> None:  # noqa: ANN401 (selenium comes without types)
    """Wait until an expression is true in the page."""
    stop = time.monotonic() + SECONDS_TO_WAIT
    while not browser.execute_script(f"return {what}"):
        if time.monotonic() > stop:
            sys.exit(f"waited for {what}")
        time.sleep(0.01)


def first_screen(browser: Any, server: Server) -> float:  # noqa: ANN401
    """Return the seconds from opening the link until the first category and its pictures on the screen are there."""
    browser.get(server.link)
    pictures = "[...document.querySelectorAll('.queue .cell img')]"
    shown = f"{pictures}.filter(one => one.getBoundingClientRect().top < innerHeight)"
    wait(browser, f"{shown}.length && {shown}.every(one => one.naturalWidth)")
    return float(browser.execute_script("return performance.now()")) / 1000


def key_times(browser: Any, keys: str) -> list[float]:  # noqa: ANN401
    """Return the milliseconds from each key to the frame that shows the next category."""
    from selenium.webdriver.common.action_chains import ActionChains

    browser.execute_script(WATCH)
    for n, key in enumerate(keys, 1):
        ActionChains(browser).send_keys(key).perform()
        wait(browser, f"window.times.length >= {n}")
        time.sleep(SECONDS_TO_LOOK)
    return [float(one) for one in browser.execute_script("return window.times")]


def map_times(browser: Any) -> tuple[float, list[float]]:  # noqa: ANN401
    """Return the seconds until the map is drawn, and the milliseconds of each lasso."""
    drawn = browser.execute_async_script(OPEN_MAP)
    element = browser.execute_script("return document.querySelector('.map .chart')")
    times = []
    for number in range(N_LASSOS):
        times.append(float(browser.execute_async_script(LASSO, element, 0.2 + 0.06 * number)))
        wait(browser, "document.querySelector('.picked .cell')")
        time.sleep(SECONDS_TO_LOOK)
    return drawn / 1000, times


def merge_times(server: Server) -> list[float]:
    """Return the milliseconds of merging two large categories, undone each time."""
    large = [one["id"] for one in server.ask("/api/categories?sort=size&n=2&typical=0")["items"]]
    times = []
    for _ in range(N_MERGES):
        times.append(server.edit(op="merge", categories=large, to=large[1]))
        server.undo()
    return times


def edit_times(server: Server) -> list[float]:
    """Return the milliseconds of small edits: names and moved images."""
    categories = server.ask(f"/api/categories?sort=name&kind=new&typical=1&n={N_EDITS}")["items"]
    times = []
    for number, one in enumerate(categories):
        times.append(server.edit(op="rename", category=one["id"], name=f"name {number}"))
        times.append(server.edit(op="move", images=one["typical"], to=categories[number - 1]["id"]))
    return times[:N_EDITS]


def percentile(values: Sequence[float]) -> float:
    """Return the 95th percentile."""
    return float(np.percentile(values, 95))


def measure_page(run: RunFolder) -> list[Target]:
    """Return the numbers of a run that a person works on."""
    with serving(run) as server, chromium() as browser:
        first = first_screen(browser, server)
        keys = key_times(browser, "j" * N_KEYS + "a" * (N_KEYS // 2))
        started = time.perf_counter()
        server.ask("/api/suggestions?kind=merge")
        suggested = time.perf_counter() - started
        browser.execute_async_script("fetch('/api/points.bin').then(arguments[0])")
        placed = time.perf_counter() - started
        drawn, lassos = map_times(browser)
        pictures = browser.execute_script("return document.querySelectorAll('img').length")
        browser.get("about:blank")  # which would follow the edits
        edits, merges = edit_times(server), merge_times(server)
        print(f"server started in {server.seconds_to_start:.1f} s, at most {server.megabytes():,.0f} MB; first merge "
              f"suggestions after {suggested:.1f} s, places of the map after {placed:.1f} s")  # fmt: skip
    return [
        Target("first screen with its pictures, s", first, 1.5),
        Target("key to next category, 95th percentile, ms", percentile(keys), 100),
        Target("edit on the disk, 95th percentile, ms", percentile(edits), 50),
        Target("merge of 10,000 images, slowest, ms", max(merges), 300),
        Target("map first drawn, s", drawn, 1),
        Target("lasso, 95th percentile, ms", percentile(lassos), 100),
        Target("pictures in the page", pictures, 400),
    ]


def measure_large(run: RunFolder) -> list[Target]:
    """Return the numbers of a very large run."""
    with serving(run) as server:
        with chromium() as browser:
            first = first_screen(browser, server)
            keys = key_times(browser, "j" * N_KEYS + "a" * (N_KEYS // 2))
        print(f"first screen after {first:.1f} s")
        return [
            Target("start, s", server.seconds_to_start, 10),
            Target("key to next category, 95th percentile, ms", percentile(keys), 200),
            Target("most memory of the server, MB", server.megabytes(), 2000),
        ]


def made(folder: Path, **sizes: int) -> RunFolder:
    """Return a generated run, made once."""
    if not (folder / "run" / "summary.json").is_file():
        shutil.rmtree(folder, ignore_errors=True)
        generated_run(folder, **sizes)
    return RunFolder(folder / "run")


def main() -> None:
    """Measure both runs."""
    parser: argparse.ArgumentParser = parser_with_targets(__doc__)
    parser.add_argument("--folder", type=Path, help="where the runs go and stay; a temporary folder by default")
    parser.add_argument("--only", choices=("page", "large"), help="one of the two runs")
    asked = parser.parse_args()
    sizes = {"page": (5_000, 100), "large": (20_000, 100)} if asked.short else {
        "page": (100_000, 1_000), "large": (1_000_000, 1_000)}  # fmt: skip
    measures: dict[str, Callable[[RunFolder], list[Target]]] = {"page": measure_page, "large": measure_large}
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        for name, (n_images, n_categories) in sizes.items():
            if asked.only in (None, name):
                run = made(folder / f"{n_images}", n_images=n_images, n_categories=n_categories, n_features=N_FEATURES)
                print(f"{n_images:,} images in {n_categories:,} categories, {N_FEATURES} features", flush=True)
                targets += measures[name](run)
    end(asked, targets)


if __name__ == "__main__":
    main()
