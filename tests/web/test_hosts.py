"""The ways of an operator of hosts, walked in a browser."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.cluster.conftest import Harness

from .watched import SECONDS, Watched
from .world import HOSTS, SPARE, World

LONG = SECONDS * 2000
"""Milliseconds for a host to go down or to come back."""


def restart_agent(harness: Harness, hostname: str) -> None:
    """Start a host's agent again, as its operator does after maintenance."""
    name = f"mesos-agent{HOSTS.index(hostname)}"
    harness.cluster.stop([name])
    harness.cluster.start([name])


def test_a_host_goes_into_maintenance_and_comes_back(it: Watched, world: World) -> None:
    it.open("/hosts")
    it.page.get_by_label(f"Choose {SPARE}").check()
    it.page.get_by_role("button", name="Start maintenance of those chosen").click()
    expect(it.page.get_by_role("heading", level=1)).to_contain_text(f"Start the maintenance of {SPARE}")
    expect(it.page.get_by_role("heading", name="What will happen")).to_be_visible()
    it.page.get_by_role("button", name="Start maintenance").click()
    it.wait_live()
    state = it.page.locator('[data-live="state"]')
    # The page follows by itself: nothing is loaded again.
    expect(it.page.get_by_role("link", name="Complete maintenance")).to_be_visible(timeout=LONG)
    expect(it.page.locator('[data-live="history"]')).to_contain_text("draining")
    expect(it.page.locator('[data-live="tasks"]')).to_contain_text("No task is on this host", timeout=LONG)
    it.page.get_by_role("link", name="Complete maintenance").click()
    it.page.get_by_role("button", name="Complete maintenance").click()
    it.wait_live()
    expect(state).to_contain_text("its maintenance was completed, and its agent has not registered since")
    restart_agent(world.harness, SPARE)
    expect(state).to_contain_text("ready", timeout=LONG)
    expect(it.page.get_by_role("link", name="Start maintenance")).to_be_visible()


def test_the_map_tells_values_by_keyboard_and_follows_the_hosts(it: Watched, world: World) -> None:
    it.open("/hosts?group=none")
    cells = it.page.locator(".cells a")
    expect(cells).to_have_count(len(HOSTS))
    cells.first.focus()
    value = it.page.locator("#heat-value")
    first = value.inner_text()
    it.page.keyboard.press("ArrowRight")
    expect(value).not_to_have_text(first)
    it.page.keyboard.press("End")
    expect(cells.last).to_be_focused()
    it.page.keyboard.press("Enter")
    expect(it.page.get_by_role("heading", level=1)).to_be_visible()
    assert it.page.url.endswith(str(cells.page.evaluate("location.pathname")))


def test_hosts_are_found_by_what_is_typed(it: Watched) -> None:
    it.open("/hosts")
    it.page.get_by_label("Name contains").fill("rack2")
    it.page.keyboard.press("Enter")
    expect(it.page.get_by_role("link", name="rack2-host1", exact=True)).to_be_visible()
    expect(it.page.get_by_role("row", name="rack1-host1")).to_have_count(0)
    it.page.get_by_role("link", name="All hosts").click()
    expect(it.page.get_by_role("row", name="rack1-host1")).to_be_visible()


def test_a_host_changes_its_pool_and_a_pool_comes_and_goes(it: Watched) -> None:
    it.open("/hostpools")
    it.page.get_by_label("Name").fill("mine.1")
    it.page.get_by_role("button", name="Create").click()
    row = it.page.get_by_role("row", name="mine.1")
    expect(row).to_be_visible()
    it.open(f"/hosts/{SPARE}")
    it.page.get_by_label("Another host pool").select_option("default")
    it.page.get_by_role("button", name="Change").click()
    it.page.get_by_role("button", name="Change").click()
    expect(it.page.locator('[data-live="state"]')).to_contain_text("default")
    expect(it.page.locator('[data-live="history"]')).to_contain_text("shared")
    it.page.get_by_label("Another host pool").select_option("shared")
    it.page.get_by_role("button", name="Change").click()
    it.page.get_by_role("button", name="Change").click()
    it.open("/hostpools")
    row.get_by_role("link", name="Delete").click()
    it.page.get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
