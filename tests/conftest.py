"""The built site behind an address, and a browser to look at it with."""

import pytest
from built import launched, served
from visits import to_visit


def pytest_addoption(parser):
    parser.addoption(
        "--every-page", action="store_true", help="visit pages that have passed, too"
    )


def pytest_generate_tests(metafunc):
    if "visited" in metafunc.fixturenames:
        metafunc.parametrize("visited", to_visit(metafunc.config))


@pytest.fixture(scope="session")
def address():
    with served() as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    with launched() as browser:
        yield browser


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
