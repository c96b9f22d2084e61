"""The ways of somebody who has jobs, walked in a browser: no page is loaded again to see more."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from .watched import Watched
from .world import World


def find_job(page: Page, name: str) -> None:
    """Find a job by its name, and open its page."""
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=name, exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_failed_instance_is_found_and_its_output_read(it: Watched, world: World) -> None:
    it.open("/jobs")
    it.page.get_by_role("checkbox", name="failed").check()
    it.page.get_by_role("button", name="Search").click()
    it.page.get_by_role("link", name="fails", exact=True).click()
    it.page.get_by_role("search", name="Instances").get_by_label("State").select_option("FAILED")
    it.page.get_by_role("button", name="Show").click()
    rows = it.page.locator('[data-live="instances"] tbody tr')
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("failed")
    rows.first.get_by_role("link", name="0", exact=True).click()
    expect(it.page.locator('[data-live="runs"]')).to_contain_text("3")
    it.page.get_by_role("link", name="Logs", exact=True).click()
    log = it.page.get_by_role("log")
    expect(log).to_contain_text("about to fail")
    expect(log).to_contain_text("<script>")
    expect(log.locator("script")).to_have_count(0)
    assert it.page.url.startswith(f"{world.url}/jobs/{world.failed}/instances/0/logs")


def test_output_is_read_as_it_grows(it: Watched, world: World) -> None:
    it.open(f"/jobs/{world.batch}/instances/0/logs")
    lines = it.page.locator("#log .line:not(.stderr)")
    last = lines.last.inner_text()
    expect(it.page.locator("#log-state")).to_have_text("Live")
    expect(lines.last).not_to_have_text(last)
    expect(lines.last).to_contain_text("<b>bold</b>")
    expect(it.page.locator("#log b")).to_have_count(0)
    count = re.search(r"line (\d+)", lines.last.inner_text())
    assert count is not None
    ahead = f"line {int(count[1]) + 3} "
    it.page.get_by_label("Filter").fill(ahead)
    expect(it.page.locator("#log .line:visible")).to_have_count(1)
    expect(it.page.locator("#log .line:visible")).to_contain_text(ahead)


def test_one_sees_why_a_job_waits_and_stops_it(it: Watched) -> None:
    it.open("/jobs")
    find_job(it.page, "hopeless")
    waiting = it.page.locator('[data-live="waiting"]')
    expect(waiting).to_contain_text("needs 40 cores")
    expect(waiting).to_contain_text("What would help")
    it.page.get_by_role("link", name="Stop", exact=True).click()
    expect(it.page.get_by_role("heading", name="What it will do")).to_be_visible()
    it.page.get_by_role("button", name="Stop hopeless").click()
    expect(it.page.locator('[data-live="state"]')).to_contain_text("killed")
    expect(waiting).not_to_contain_text("What would help")


def test_a_service_is_updated_batch_by_batch(it: Watched, world: World) -> None:
    it.open(f"/jobs/{world.service.id.value}")
    it.page.get_by_role("link", name="Update…", exact=True).click()
    spec = it.page.get_by_label("Spec, version")
    spec.fill(spec.input_value().replace("started as", "now <i>new</i>, started as"))
    it.page.get_by_label("Instances at a time").fill("1")
    it.page.get_by_role("button", name="Show what it will do").click()
    expect(it.page.locator("table.diff tr.added")).to_have_count(1)
    expect(it.page.locator("table.diff tr.added")).to_contain_text("<i>new</i>")
    it.page.get_by_role("button", name="Update shop").click()
    workflow = it.page.locator('[data-live="workflow"]')
    batches = workflow.get_by_role("list", name="Batches").get_by_role("listitem")
    expect(batches).to_have_count(3)
    expect(batches.first).to_contain_text("done")
    expect(batches.last).to_contain_text("done")
    expect(workflow).to_contain_text("Last update or restart")
    expect(workflow).to_contain_text("3 of 3", use_inner_text=False)
    it.page.get_by_role("link", name="Versions", exact=True).click()
    it.page.get_by_role("link", name="with 1", exact=True).first.click()
    expect(it.page.locator("table.diff tr.added")).to_contain_text("<i>new</i>")


def test_names_labels_and_paths_that_hold_html_are_text(it: Watched, world: World) -> None:
    it.open("/jobs")
    it.page.get_by_role("link", name="<img src=x").first.click()
    expect(it.page.get_by_role("heading", level=1)).to_contain_text("<script>")
    it.page.locator("a.label", has_text="<u>key").click()
    expect(it.page.get_by_label("Labels")).to_have_value(re.compile("<u>key=<img"))
    expect(it.page.locator('[data-live="found"] tbody tr')).to_have_count(4)
    assert it.page.evaluate("document.body.dataset.hacked ?? null") is None
