"""Pictures of every page, light and dark, large and small: of three clusters, each in a folder of its own.

python -m tests.web.screenshots [--into FOLDER] [--clusters world,lively,empty] [NAME ...]

NAME takes the pages whose names begin so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Browser, StorageState, sync_playwright

from minicluster.credentials import ADMIN, VIEWER

from . import lively, lively_places
from .places import places
from .watched import CHROMIUM, FLAGS, LOOKS, Look, Watched, log_in, session, tab
from .world import FIRST_HOST, World, temporary_world

FOLDER = Path("build/screenshots")
Step = Callable[[Watched], None]


class Camera:
    """Takes pictures of the pages that are asked for."""

    def __init__(self, browser: Browser, folder: Path, names: Sequence[str]) -> None:
        self.browser, self._names = browser, tuple(names)
        self._folder = folder
        self.taken = 0

    def take(
        self, base: str, steps: Mapping[str, Step], kind: str, state: StorageState | None = None
    ) -> None:
        """Take each in every look, a file for each in the folder of its kind of cluster."""
        wanted = {name: step for name, step in steps.items() if name.startswith(self._names or ("",))}
        for look in LOOKS:
            with tab(self.browser, base, look, state) as opened:
                for name, step in wanted.items():
                    step(opened)
                    self._shoot(opened, kind, name, look)

    def _shoot(self, opened: Watched, kind: str, name: str, look: Look) -> None:
        file = self._folder / kind / f"{name}-{look}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        opened.page.screenshot(path=file, full_page=True)
        self.taken += 1


def opens(pages: Mapping[str, str]) -> dict[str, Step]:
    """Return steps that open pages."""
    return {name: _open(path) for name, path in pages.items()}


def _open(path: str) -> Step:
    return lambda opened: opened.open(path)


def _of_reader(world: World) -> dict[str, str]:
    """Return pages that show what somebody may not do who only reads."""
    return {
        "reader-job": f"/jobs/{world.service.id.value}",
        "reader-stop": f"/jobs/{world.service.id.value}/do/stop",
        "reader-host": f"/hosts/{FIRST_HOST}",
        "reader-hostpools": "/hostpools",
    }


def errors(world: World) -> dict[str, Step]:
    """Return what leads to a page for each kind of error. Nothing is changed by it."""
    stop = f"/jobs/{world.service.id.value}/do/stop"

    def without(cookie: str) -> Step:
        def press(opened: Watched) -> None:
            opened.open(stop)
            opened.page.context.clear_cookies(name=cookie)
            opened.page.get_by_role("button", name="Stop shop").click()
            opened.page.get_by_text("Status 40").wait_for()

        return press

    def taken(opened: Watched) -> None:
        opened.open("/hostpools")
        opened.page.locator('form[action="/hostpools/create"] input[name=name]').fill("shared")
        opened.page.get_by_role("button", name="Create", exact=False).last.click()
        opened.page.get_by_text("Status 409").wait_for()

    def missing(path: str, status: int) -> Step:
        return lambda opened: opened.open_failing(path, status)

    return {
        "error-400": missing("/hosts?kind=colour", 400),
        "error-404": missing("/hosts/nobody", 404),
        "error-404-path": missing("/nowhere", 404),
        "error-409": taken,
        "error-403": without("peloton_csrf"),
        "error-401": without("peloton_session"),  # the last: nobody is logged in then
    }


def _wrong_password(opened: Watched) -> None:
    opened.open("/login")
    log_in(opened.page, "somebody", "wrong")
    opened.page.locator("main .notice.bad:not(#trouble)").first.wait_for()


def take_world(camera: Camera) -> None:
    """Take the pages of the cluster of the tests, which asks callers who they are."""
    with temporary_world() as world:
        admin, reader = (
            session(camera.browser, world.url, name, world.users[name].password) for name in (ADMIN, VIEWER)
        )
        camera.take(world.url, {**opens(places(world)), **errors(world)}, "world", admin)
        camera.take(world.url, opens(_of_reader(world)), "world", reader)
        camera.take(world.url, {"login-stranger": _open("/login"), "login-wrong": _wrong_password}, "world")


def take_lively(camera: Camera) -> None:
    """Take the pages of a busy cluster, then those of one without a resource manager and a host manager."""
    with lively.temporary(lively.lively) as made:
        found = lively_places.places(made)
        camera.take(made.url, {**opens(found), **lively_places.steps(made)}, "lively")
        made.cluster.stop(["resmgr0", "hostmgr0"])
        away = {f"away-{name}": _try(found[name]) for name in lively_places.WITHOUT_DAEMONS}
        camera.take(made.url, away, "lively")


def _try(path: str) -> Step:
    """Open a page that may say that it cannot be shown."""
    return lambda opened: _loaded(opened, path)


def _loaded(opened: Watched, path: str) -> None:
    opened.page.goto(opened.base + path, wait_until="load")


def take_empty(camera: Camera) -> None:
    """Take the pages of a cluster that nobody has used."""
    with lively.temporary(lively.empty) as made:
        camera.take(made.url, opens(lively_places.empty_places()), "empty")


CLUSTERS: Mapping[str, Callable[[Camera], None]] = {
    "world": take_world,
    "lively": take_lively,
    "empty": take_empty,
}


def main(arguments: Sequence[str]) -> int:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description="Pictures of every page of the web UI.")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("--clusters", default=",".join(CLUSTERS), metavar="NAME,…")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args(arguments)
    kinds = given.clusters.split(",")
    if unknown := [kind for kind in kinds if kind not in CLUSTERS]:
        parser.error(f"--clusters: {unknown[0]!r} is none of {', '.join(CLUSTERS)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        camera = Camera(browser, given.into, given.names)
        for kind in kinds:
            CLUSTERS[kind](camera)
            print(f"{given.into}: {camera.taken} pictures after {kind}", flush=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
