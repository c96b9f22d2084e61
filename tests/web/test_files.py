"""Output and files of runs, read in a browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from .watched import Watched
from .world import World


def test_the_output_of_an_ended_run_is_searched_and_downloaded(it: Watched, world: World) -> None:
    it.open(f"/jobs/{world.failed}/instances/1")
    it.page.get_by_role("link", name="Logs of run 1", exact=True).click()
    expect(it.page.get_by_role("heading", level=1)).to_contain_text("run 1")
    expect(it.page.locator("#log-state")).to_have_text("The run has ended.")
    expect(it.page.get_by_label("Follow")).to_have_count(0)
    it.page.get_by_label("Search the whole output").fill("FAIL")
    it.page.get_by_role("button", name="Show").click()
    matches = it.page.locator("table.matches tbody tr")
    expect(matches).to_have_count(1)
    expect(matches.first).to_contain_text("about to fail")
    expect(matches.locator("mark")).to_have_text("fail")
    matches.get_by_role("link", name="1", exact=True).click()
    expect(it.page.get_by_role("log")).to_contain_text("about to fail")
    with it.page.expect_download() as waiting:
        it.page.get_by_role("link", name="Download stdout").click()
    assert Path(waiting.value.path()).read_text() == "about to fail\n"
    assert waiting.value.suggested_filename == "stdout"
    it.check_access()


def test_the_files_of_a_run_are_browsed(it: Watched, world: World) -> None:
    it.open(f"/jobs/{world.failed}/instances/0")
    it.page.get_by_role("link", name="Files", exact=True).click()
    rows = it.page.locator("main tbody tr")
    expect(rows.filter(has_text="stdout")).to_contain_text("14")
    rows.get_by_role("link", name="d/", exact=True).click()
    expect(rows).to_have_count(1)
    it.check_access()
    expect(rows.get_by_role("link", name="Download <b>x")).to_be_visible()
    rows.get_by_role("link", name="<b>x", exact=True).click()
    expect(it.page.get_by_role("log")).to_contain_text("what is inside")
    assert not it.page.locator("main b").filter(has_text="x").count()
