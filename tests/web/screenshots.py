"""Pictures of every page, light and dark, large and small, in build/screenshots.

python -m tests.web.screenshots [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from .places import places
from .watched import CHROMIUM, FLAGS, LOOKS, tab
from .world import temporary_world

FOLDER = Path("build/screenshots")


def main(names: list[str]) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with temporary_world() as world, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for look in LOOKS:
            with tab(browser, world.url, look) as opened:
                for name, path in places(world).items():
                    if not names or name in names:
                        opened.open(path)
                        opened.page.screenshot(path=FOLDER / f"{name}-{look}.png", full_page=True)
        browser.close()
    print(f"{FOLDER}: {len(list(FOLDER.glob('*.png')))} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
