"""The built site, a server for it, and a browser to look at it."""

import functools
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest

from tools.book import ROOT

SITE = ROOT / "_build" / "html"
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def lacking(what: str) -> None:
    """Skip on a reader's machine; fail where the checks must be whole."""
    if os.environ.get("CI") == "true":
        pytest.fail(what)
    pytest.skip(what)


def pages() -> list[str]:
    """Pages that a reader can open, as paths below the site."""
    found = [*SITE.glob("book/*.html"), *SITE.glob("notebooks/*.html")]
    return sorted(path.relative_to(SITE).as_posix() for path in found)


def pytest_generate_tests(metafunc):
    if "page_name" in metafunc.fixturenames:
        metafunc.parametrize("page_name", pages() or ["no page"])


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the built site."""
    if not (SITE / "index.html").exists():
        lacking("the site is not built: run `make book` first")
    return SITE


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="session")
def base_url(site):
    """Address of the site, served from a subfolder as on a public host."""
    handler = functools.partial(Quiet, directory=site.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{site.name}/"
        server.shutdown()
        thread.join()


def chromium() -> str | None:
    """Path of a Chromium of this machine."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if shutil.which(name):
            return shutil.which(name)
    return str(MAC) if MAC.exists() else None


@pytest.fixture(scope="session")
def browser(site):
    """One headless Chromium for all tests."""
    path = chromium()
    if path is None:
        lacking("no Chromium was found, so the pages were not opened in a browser")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield found
        found.close()


class Visit:
    """One page opened in one window; remembers all that was asked and said."""

    def __init__(self, browser, base_url, *, width=1280, theme="light"):
        self.base_url = base_url
        self.messages, self.foreign, self.failed = [], [], []
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme
        )
        self.page = self.context.new_page()
        self.page.on("console", lambda m: self.messages.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))
        self.page.on("request", self.note_request)
        self.page.on("requestfailed", lambda request: self.failed.append(request.url))
        self.page.on("response", self.note_response)

    def note_request(self, request):
        """Remember a request to another host."""
        own = (self.base_url, "data:", f"blob:{self.base_url}")
        if not request.url.startswith(own):
            self.foreign.append(request.url)

    def note_response(self, response):
        """Remember what the server did not have."""
        if response.status >= 400:
            self.failed.append(f"{response.status} {response.url}")

    def open(self, name: str):
        """Go to a page and wait until it is at rest."""
        self.page.goto(self.base_url + name)
        self.page.wait_for_load_state("networkidle")
        return self.page


@pytest.fixture
def visit(browser, base_url):
    """Make a visit; its window is closed after the test."""
    made = []

    def make(name, **options):
        made.append(Visit(browser, base_url, **options))
        made[-1].open(name)
        return made[-1]

    yield make
    for one in made:
        one.context.close()
