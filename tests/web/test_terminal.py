"""A terminal in a task, in a browser."""

from __future__ import annotations

from playwright.sync_api import Browser, StorageState, expect

from .watched import Watched, tab
from .world import World


def test_a_command_is_typed_and_its_output_is_read(it: Watched, world: World) -> None:
    it.open(f"/jobs/{world.batch}/instances/0")
    it.page.get_by_role("link", name="Terminal", exact=True).click()
    state, screen = it.page.locator("#terminal-state"), it.page.locator("#terminal .xterm-rows")
    expect(state).to_contain_text("Connected")
    it.page.keyboard.type("echo is $((6*7)) in $MESOS_TASK_ID\n")
    expect(screen).to_contain_text(f"is 42 in {world.batch}-0-")
    it.page.keyboard.type("printf '\\033[38;2;1;2;3mcolour\\033[0m'; c=$(stty size | cut -d' ' -f2)\n")
    expect(screen).to_contain_text("colour")
    it.check_access()
    it.page.set_viewport_size({"width": 700, "height": 900})
    waits = "until [ $(stty size | cut -d' ' -f2) -lt $c ]; do sleep 0.1; done; echo small''er\n"
    it.page.keyboard.type(waits)
    expect(screen).to_contain_text("smaller")
    it.page.keyboard.type("exit 3\n")
    expect(state).to_have_text("Not connected: the shell has ended with exit code 3.")
    it.page.get_by_role("button", name="Connect again").click()
    expect(state).to_contain_text("Connected")
    it.page.keyboard.type("echo once $((40+1)) more\n")
    expect(screen).to_contain_text("once 41 more")


def test_a_reader_has_no_terminal_and_is_told_why(
    browser: Browser, world: World, viewer: StorageState
) -> None:
    with tab(browser, world.url, state=viewer) as reader:
        path = f"/jobs/{world.batch}/instances/0"
        reader.open(path)
        expect(reader.page.get_by_role("link", name="Terminal")).to_have_count(0)
        expect(reader.page.locator(".denied")).to_contain_text("A terminal: not allowed.")
        reader.open_failing(f"{path}/terminal", 403)
        expect(reader.page.locator("main")).to_contain_text("you may not run commands in this task")
        reader.check()
