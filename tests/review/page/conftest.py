"""A finished run with pictures, and its page on a real port of this machine."""

import http.client
import json
import threading
import time

import numpy as np
import pytest
from finished_runs import IMAGES, finished_run
from PIL import Image

pytest.importorskip("starlette", reason="the review page is not installed (extra `review`)")

from nngcd.review.page.serving import opened


class Client:
    """Asks a page as a browser would, and can leave out or forge what a browser sends."""

    def __init__(self, server):
        self.page, self.door = server.page, server.page.door
        self.host = f"127.0.0.1:{self.door.port}"
        self.cookie = f"{self.door.cookie}={self.door.token}"

    def ask(self, path, *, method="GET", body=None, **headers):
        sent = {"Host": self.host, "Cookie": self.cookie}
        if method == "POST":
            sent |= {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=300)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, content, {name: value for name, value in sent.items() if value is not None})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def get(self, path):
        answer, content = self.ask(path)
        assert answer.status == 200, content
        return json.loads(content)

    def post(self, path, body, **headers):
        answer, content = self.ask(path, method="POST", body=body, **headers)
        return answer.status, json.loads(content)

    def edit(self, *changes, version=None):
        version = self.get("/api/run")["version"] if version is None else version
        return self.post("/api/edits", {"version": version, "changes": list(changes)})


class Person:
    """Presses keys and looks; counts the keys apart from typed names."""

    def __init__(self, browser):
        self.browser, self.n_keys = browser, 0

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.browser).send_keys(key).perform()
            self.n_keys += 1

    def type(self, text):
        self.press(*text)
        self.n_keys -= len(text)

    def shift(self, key):
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        ActionChains(self.browser).key_down(Keys.SHIFT).send_keys(key).key_up(Keys.SHIFT).perform()
        self.n_keys += 1

    def see(self, what, *arguments):
        return self.browser.execute_script(f"return {what}", *arguments)

    def wait(self, what, seconds=300):
        end = time.monotonic() + seconds
        while not (found := self.see(what)):
            assert time.monotonic() < end, f"waited for {what}; the page says: {self.see('document.body.innerText')}"
            time.sleep(0.02)
        return found

    def name(self):
        return self.see("document.querySelector('.queue .name')?.textContent")

    def wait_said(self, text):
        self.wait(f"document.getElementById('said').textContent.includes({text!r})")


@pytest.fixture
def person(browser):
    return Person(browser)


@pytest.fixture
def run(tmp_path):
    """The run of `finished_runs`, with a picture for every image."""
    rng, data = np.random.default_rng(0), tmp_path / "data"
    for name, *_ in IMAGES:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, size=(30, 40, 3), dtype=np.uint8)).save(data / name)
    return finished_run(tmp_path / "run", data=data)


@pytest.fixture
def start():
    """Start the server of a run in a thread; give its client."""
    ends = []

    def begin(run, **settings):
        asked = {"root": None, "host": "127.0.0.1", "port": 0, "is_read_only": False} | settings
        context = opened(run, **asked)
        server = context.__enter__()
        thread = threading.Thread(target=server.serve_until_stopped, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)

        def end():
            server.page.is_closing = server.should_exit = True
            thread.join(10)
            context.__exit__(None, None, None)

        ends.append(end)
        return Client(server)

    yield begin
    for end in reversed(ends):
        end()


@pytest.fixture
def client(run, start):
    return start(run)
