"""Pictures of every page, light and dark, large and small, in build/screenshots.

python -m tests.web.screenshots [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from minicluster.credentials import ADMIN, VIEWER

from .places import places
from .watched import CHROMIUM, FLAGS, LOOKS, session, tab
from .world import FIRST_HOST, World, temporary_world

FOLDER = Path("build/screenshots")


def _of_reader(world: World) -> dict[str, str]:
    """Return pages that show what somebody may not do who only reads."""
    return {
        "reader-job": f"/jobs/{world.service.id.value}",
        "reader-stop": f"/jobs/{world.service.id.value}/do/stop",
        "reader-host": f"/hosts/{FIRST_HOST}",
        "reader-hostpools": "/hostpools",
    }


def main(names: list[str]) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with temporary_world() as world, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        state = session(browser, world.url, ADMIN, world.users[ADMIN].password)
        reader = session(browser, world.url, VIEWER, world.users[VIEWER].password)
        for look in LOOKS:
            with tab(browser, world.url, look, state) as opened:
                for name, path in places(world).items():
                    if not names or name in names:
                        opened.open(path)
                        opened.page.screenshot(path=FOLDER / f"{name}-{look}.png", full_page=True)
            with tab(browser, world.url, look, reader) as opened:
                for name, path in _of_reader(world).items():
                    if not names or name in names:
                        opened.open(path)
                        opened.page.screenshot(path=FOLDER / f"{name}-{look}.png", full_page=True)
                if not names or "error" in names:
                    opened.open_failing("/hosts/nobody", 404)
                    opened.page.screenshot(path=FOLDER / f"error-{look}.png", full_page=True)
        browser.close()
    print(f"{FOLDER}: {len(list(FOLDER.glob('*.png')))} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
