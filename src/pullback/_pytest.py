"""The plugin of pytest: findings of ``pullback.watch`` are failures when asked for.

``pytest --pullback-watch`` watches each test, ``@pytest.mark.pullback_watch`` one;
``@pytest.mark.pullback_watch(without=["loss-broadcast"])`` leaves a rule out, and
``strict=True`` reports also what correct programs do on purpose. A test that fails by
itself keeps its own error.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

NAME = "pullback_watch"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("pullback").addoption(
        "--pullback-watch",
        action="store_true",
        help="fail tests of which pullback.watch finds something",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{NAME}(strict=False, without=()): fail if pullback.watch finds something",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch a test, and fail it by what was found."""
    marker = item.get_closest_marker(NAME)
    if marker is None and not item.config.getoption("--pullback-watch"):
        return (yield)
    from pullback import watch  # and torch, when it is needed

    options = marker.kwargs if marker is not None else {}
    with watch(**options) as seen:
        result = yield
    if seen:
        pytest.fail(str(seen), pytrace=False)
    return result
