"""The built site behind an address, and a browser to look at it with."""

import gc

import pytest
from built import DESKTOP, launched, look_at_site, served
from sweeps import (  # noqa: F401
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_report_header,
    pytest_runtest_makereport,
    pytest_runtest_setup,
)

import pages

gc.disable()  # it walks what is imported and collected again and again


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Have memory cleared again when all tests are there.

    What is there by then stays, and neither that nor ``trace``, which looks for the tensors
    that a graph belongs to, walks it in each test.
    """
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def site_of_these_sources():
    look_at_site()


@pytest.fixture(scope="session")
def address():
    with served() as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    with launched() as browser:
        yield browser


@pytest.fixture
def torch_alone(monkeypatch):
    """Have pages find torch imported, without its parts that take longer than the rest."""
    monkeypatch.setattr(pages, "PRELOAD", ["torch"])


@pytest.fixture(scope="session")
def window(browser):
    """A window for one test after another: a new one costs a second of a processor."""
    return browser.new_page()


@pytest.fixture
def opened(browser, window):
    """Open empty windows; an error in one fails the test, and a request of one ``alone``.

    The first takes the window that is there, unless it asks for another kind.
    """
    contexts, heard, errors = [], [], []

    def failed(error):
        errors.append(str(error))

    def loads(request):
        errors.append(request.url)

    def opened(scripts=True, alone=False, **options):
        if scripts and not options and not heard:
            page = window
            page.goto("about:blank")
            page.emulate_media(media="null")
            page.set_viewport_size(DESKTOP)
        else:
            contexts.append(browser.new_context(java_script_enabled=scripts, **options))
            page = contexts[-1].new_page()
        listeners = {"pageerror": failed} | ({"request": loads} if alone else {})
        for event, listener in listeners.items():
            page.on(event, listener)
            heard.append((page, event, listener))
        return page

    yield opened
    for context in contexts:
        context.close()
    for page, event, listener in heard:
        page.remove_listener(event, listener)
    assert errors == []


@pytest.fixture
def show(opened):
    """Put fragments on a page, in a window of some width; errors fail the test."""

    def show(*fragments, width=800, **options):
        page = opened(alone=True, **options)
        page.set_viewport_size({"width": width, "height": 700})
        head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>A page</title>'
        page.set_content(f"{head}<body><main>{''.join(fragments)}</main></body></html>")
        return page

    return show
