"""The built site behind an address, and a browser to look at it with."""

import gc

import pytest
from built import launched, look_at_site, served
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
