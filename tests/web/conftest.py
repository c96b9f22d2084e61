"""One cluster and one browser for all tests of the web UI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from .watched import CHROMIUM, FLAGS, SECONDS, Watched, tab
from .world import World
from .world import world as made_world


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        _lacking(f"{CHROMIUM} is missing: `make web-browser` installs it")
    expect.set_options(timeout=SECONDS * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with made_world(tmp_path_factory.mktemp("minicluster")) as made:
        yield made


@pytest.fixture
def it(browser: Browser, world: World) -> Iterator[Watched]:
    """A tab of its own for each test; nothing may have gone wrong in it."""
    with tab(browser, world.url) as opened:
        yield opened
        opened.check()


def _lacking(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI nothing may be missing: {what}")
    pytest.skip(what)
