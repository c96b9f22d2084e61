"""One cluster and one browser for all tests of the web UI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, StorageState, expect, sync_playwright

from minicluster.credentials import ADMIN, VIEWER

from .watched import CHROMIUM, FLAGS, SECONDS, Watched, session, tab
from .world import World, temporary_world


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
def world() -> Iterator[World]:
    with temporary_world() as made:
        yield made


@pytest.fixture(scope="session")
def admin(browser: Browser, world: World) -> StorageState:
    """The cookies of a browser of somebody who may do everything."""
    return session(browser, world.url, ADMIN, world.users[ADMIN].password)


@pytest.fixture(scope="session")
def viewer(browser: Browser, world: World) -> StorageState:
    """The cookies of a browser of somebody who may read."""
    return session(browser, world.url, VIEWER, world.users[VIEWER].password)


@pytest.fixture
def it(browser: Browser, world: World, admin: StorageState) -> Iterator[Watched]:
    """A tab of its own for each test; nothing may have gone wrong in it."""
    with tab(browser, world.url, state=admin) as opened:
        yield opened
        opened.check()


def _lacking(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI nothing may be missing: {what}")
    pytest.skip(what)
