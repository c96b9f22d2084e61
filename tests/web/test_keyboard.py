"""A way that is walked by keyboard alone."""

from __future__ import annotations

from playwright.sync_api import expect

from .watched import Watched
from .world import World


def walk_to(it: Watched, script: str) -> None:
    """Press Tab until an expression about the element `it` that has the focus is true."""
    for _ in range(80):
        it.page.keyboard.press("Tab")
        if it.page.evaluate(f"(() => {{ const it = document.activeElement; return Boolean({script}); }})()"):
            return
    raise AssertionError(f"the Tab key does not lead to what is {script}")


def test_a_job_is_found_and_stopped_by_keyboard_alone(it: Watched, world: World) -> None:
    config = world.harness.config("sleep 3600", 1)
    config.name = "by keyboard"
    world.harness.running(world.harness.create(config), 0)
    it.open("/")
    walk_to(it, "it.textContent === 'Jobs'")
    it.page.keyboard.press("Enter")
    it.wait_live()
    walk_to(it, "it.name === 'name'")
    it.page.keyboard.type("by keyboard")
    it.page.keyboard.press("Enter")
    expect(it.page.locator('[data-live="found"] tbody tr')).to_have_count(1)
    it.wait_live()
    walk_to(it, "it.textContent === 'by keyboard'")
    it.page.keyboard.press("Enter")
    expect(it.page.get_by_role("heading", level=1)).to_have_text("by keyboard")
    it.wait_live()
    walk_to(it, "it.textContent === 'Stop'")
    it.page.keyboard.press("Enter")
    expect(it.page.get_by_role("heading", name="What it will do")).to_be_visible()
    walk_to(it, "it.textContent === 'Stop by keyboard'")
    it.page.keyboard.press("Enter")
    it.wait_live()
    expect(it.page.locator('[data-live="state"]')).to_contain_text("killed")
