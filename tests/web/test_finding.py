"""The box in the header, by keyboard, and without scripts."""

from __future__ import annotations

from playwright.sync_api import Browser, StorageState, expect

from .watched import Watched, tab
from .world import FIRST_HOST, World

BOX = "Find anything"


def test_a_host_is_found_by_keyboard_alone(it: Watched) -> None:
    it.open("/pools")
    it.page.keyboard.press("/")
    expect(it.page.get_by_label(BOX)).to_be_focused()
    it.page.keyboard.type("rack1")
    lines = it.page.locator("#find-lines a")
    expect(lines).to_have_count(2)
    it.check_access()
    it.page.keyboard.press("ArrowDown")
    expect(lines.first).to_be_focused()
    it.page.keyboard.press("Escape")
    expect(it.page.locator("#find-lines")).to_be_hidden()
    expect(it.page.get_by_label(BOX)).to_be_focused()
    it.page.keyboard.press("Backspace")
    expect(lines).to_have_count(3)
    it.page.get_by_role("link", name=FIRST_HOST).press("Enter")
    expect(it.page.get_by_role("heading", level=1)).to_have_text(FIRST_HOST)


def test_ctrl_k_leads_to_the_box_from_within_a_field(it: Watched, world: World) -> None:
    it.open("/jobs")
    field = it.page.get_by_label("Owner")
    field.press("/")
    expect(field).to_have_value("/")
    field.press("Control+k")
    expect(it.page.get_by_label(BOX)).to_be_focused()
    it.page.keyboard.type("shop-1")
    expect(it.page.locator("#find-lines a")).to_contain_text(["shop, instance 1"])
    it.page.keyboard.press("Enter")
    expect(it.page.get_by_role("heading", level=1)).to_have_text("Instance 1 of shop")


def test_names_that_hold_html_are_text_in_the_list(it: Watched) -> None:
    it.open("/")
    it.page.get_by_label(BOX).fill("host")
    expect(it.page.locator("#find-lines")).to_contain_text("<b onclick=alert(1)>host")
    assert not it.page.locator("#find-lines b[onclick]").count()


def test_the_box_works_without_scripts(browser: Browser, world: World, admin: StorageState) -> None:
    context = browser.new_context(storage_state=admin, ignore_https_errors=True, java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto(f"{world.url}/hosts")
        page.get_by_label(BOX).fill("rack")
        page.get_by_label(BOX).press("Enter")
        expect(page.get_by_role("heading", name="Hosts")).to_be_visible()
        page.get_by_role("link", name=FIRST_HOST).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(FIRST_HOST)
    finally:
        context.close()


def test_who_is_logged_out_is_led_to_the_login(browser: Browser, world: World) -> None:
    with tab(browser, world.url) as opened:
        opened.page.goto(f"{world.url}/search?q=shop")
        expect(opened.page.get_by_role("heading", level=1)).to_have_text("Log in")
