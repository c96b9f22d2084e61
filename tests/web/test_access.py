"""Logging in, and what somebody sees who may only read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, StorageState, expect

from minicluster.credentials import VIEWER

from .watched import LOOKS, Look, Watched, log_in, tab
from .world import FIRST_HOST, SPARE, World


@pytest.fixture
def stranger(browser: Browser, world: World) -> Iterator[Watched]:
    """A tab of a browser in which nobody is logged in."""
    with tab(browser, world.url) as opened:
        yield opened
        opened.check()


@pytest.fixture
def reader(browser: Browser, world: World, viewer: StorageState) -> Iterator[Watched]:
    """A tab of somebody who may read."""
    with tab(browser, world.url, state=viewer) as opened:
        yield opened
        opened.check()


def test_who_is_not_logged_in_logs_in_and_comes_to_the_page_that_was_asked_for(
    stranger: Watched, world: World
) -> None:
    page, user = stranger.page, world.users[VIEWER]
    stranger.open(f"/jobs/{world.failed}?state=FAILED")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    log_in(page, user.username, "wrong")
    expect(page.locator("main .notice.bad:not(#trouble)")).to_contain_text("username or password is wrong")
    expect(page.get_by_label("Password")).to_be_focused()
    stranger.forgive(401)
    stranger.check_access()
    log_in(page, "<b>nobody</b>", "wrong")
    expect(page.locator("main .notice.bad:not(#trouble)")).to_contain_text("username or password is wrong")
    expect(page.get_by_label("Name")).to_have_value("<b>nobody</b>")
    stranger.forgive(401)
    log_in(page, user.username, user.password)
    expect(page.get_by_role("heading", level=1)).to_have_text("fails")
    assert page.url == f"{world.url}/jobs/{world.failed}?state=FAILED"
    stranger.wait_live()
    page.get_by_role("button", name=f"Log out {VIEWER}").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    stranger.open("/hosts")
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


@pytest.mark.parametrize("look", (LOOKS[0], LOOKS[3]), ids=str)
def test_what_a_reader_may_not_do_is_disabled_and_says_why(
    browser: Browser, world: World, viewer: StorageState, look: Look
) -> None:
    service = f"/jobs/{world.service.id.value}"
    places = {
        service: ("Start", "Stop", "Restart", "Update…", "Roll back…", "Pause", "Resume", "Abort"),
        f"/hosts/{FIRST_HOST}": ("Start maintenance…",),
        "/hosts": ("Start maintenance of those chosen…", "Complete maintenance of those chosen…"),
        "/hostpools": ("Move…", "Create"),
        f"/maintenance/start?host={SPARE}": ("Start maintenance",),
        "/hostpools/move?source=shared&destination=default&count=1": ("Move",),
    }
    with tab(browser, world.url, look, viewer) as opened:
        for path, names in places.items():
            opened.open(path)
            for name in names:
                off = opened.page.locator("button:disabled, .button.off").filter(has_text=name)
                expect(off.first).to_have_attribute("title", re.compile("user viewer may not call"))
                assert not opened.page.get_by_role("link", name=name, exact=True).count()
            expect(opened.page.locator(".denied").first).to_contain_text(re.compile("not allowed", re.I))
            opened.check_access()
            opened.check()


def test_a_reader_reads_output_and_is_refused_what_the_page_does_not_offer(
    reader: Watched, world: World
) -> None:
    reader.open(f"/jobs/{world.failed}/instances/0/logs")
    expect(reader.page.get_by_role("log")).to_contain_text("about to fail")
    reader.open(f"/jobs/{world.service.id.value}/do/stop")
    expect(reader.page.locator("main .notice:not(#trouble)")).to_contain_text(
        "Stop is not allowed: user viewer may not call"
    )
    expect(reader.page.locator("main form")).to_have_count(0)
    # The form as it would have been: the daemon refuses it.
    reader.page.evaluate(
        """() => { const form = document.createElement("form");
             form.method = "post";
             const fields = { csrf: document.querySelector('meta[name="csrf"]').content, version: "1-1-1" };
             for (const [name, value] of Object.entries(fields))
               form.append(Object.assign(document.createElement("input"), { name, value }));
             document.body.append(form);
             form.submit(); }"""
    )
    expect(reader.page.get_by_role("heading", level=1)).to_have_text("You may not do this")
    expect(reader.page.locator("main")).to_contain_text("StopJob")
    reader.forgive(403)
    reader.check_access()
