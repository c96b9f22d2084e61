"""Every page opens in a real browser, light and dark, large and small, and shows HTML as text."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, StorageState
from starlette.routing import compile_path

from .places import paths, places
from .watched import LOOKS, Look, Watched, tab
from .world import World


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_every_page_is_sound(
    browser: Browser, world: World, admin: StorageState, look: Look, subtests: pytest.Subtests
) -> None:
    with tab(browser, world.url, look, admin) as opened:
        for name, path in places(world).items():
            with subtests.test(name):
                opened.open(path)
                opened.check_access()
                opened.check()
                assert opened.page.evaluate("document.body.dataset.hacked ?? null") is None
                assert not opened.page.locator("img[src=x], main script, main b[onclick]").count()


def test_every_page_is_among_those_that_are_opened(world: World) -> None:
    opened = [path.partition("?")[0] for path in places(world).values()]
    for path in paths():
        pattern = compile_path(path)[0]
        assert any(pattern.match(each) for each in opened), f"{path} is in no place of tests/web/places.py"


def test_the_first_stop_of_the_tab_key_leads_to_the_content(it: Watched) -> None:
    it.open("/hosts")
    it.page.keyboard.press("Tab")
    skip = it.page.locator(":focus")
    assert skip.inner_text() == "Skip to the content"
    assert skip.is_visible()
    skip.press("Enter")
    assert it.page.evaluate("document.activeElement.id") == "main"
    it.page.keyboard.press("Tab")
    assert it.page.evaluate("document.activeElement.textContent") == "Topology"


def test_the_focus_is_seen_at_each_stop(it: Watched) -> None:
    it.open("/hosts")
    seen = []
    for _ in range(25):
        it.page.keyboard.press("Tab")
        seen.append(
            it.page.evaluate(
                """() => { const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
                     return [document.activeElement.outerHTML.slice(0, 80), outlineStyle, outlineWidth]; }"""
            )
        )
    unseen = [html for html, style, width in seen if style == "none" or width == "0px"]
    assert not unseen
    assert len({html for html, _, _ in seen}) > 15


def test_the_theme_is_chosen_and_kept(it: Watched) -> None:
    it.open("/hosts")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = it.page.evaluate(ground)
    switch = it.page.get_by_role("button", name="System theme")
    switch.click()
    it.page.get_by_role("button", name="Light theme").click()
    it.page.get_by_role("button", name="Dark theme").wait_for()
    dark = it.page.evaluate(ground)
    assert dark != light
    it.open("/hostpools")
    assert it.page.evaluate(ground) == dark
