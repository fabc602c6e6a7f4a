"""The built site behind an address, and a browser to look at it with."""

import functools
import http.server
import threading

import pytest
from built import CHROMIUM, SITE


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="session")
def address():
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def show(browser):
    """Put fragments on a page, in a window of some width; errors fail the test."""
    contexts, errors = [], []

    def show(*fragments, width=800, scripts=True, **options):
        context = browser.new_context(
            viewport={"width": width, "height": 700}, java_script_enabled=scripts, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: errors.append(request.url))
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>A page</title>'
        page.set_content(f"{head}<body><main>{''.join(fragments)}</main></body></html>")
        return page

    yield show
    for context in contexts:
        context.close()
    assert errors == []
