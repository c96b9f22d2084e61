"""Gather the pages of the site in one folder, as `zensical.toml` names it, for `make docs`.

Pages stay where they are in the repository, so that their links hold there and on the site. A link to a
folder leads to a page that lists its files.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build" / "docs-source"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
FILES = ("LICENSE",)
FOLDERS = ("examples", "deploy", "proto")
"""Folders that pages lead to."""
LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


def main() -> None:
    """Fill the folder anew."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE / "docs")
    for name in (*PAGES, *FILES):
        shutil.copy(ROOT / name, SOURCE / name)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, SOURCE / folder, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
        _list(SOURCE / folder)
    for page in SOURCE.rglob("*.md"):
        page.write_text(_to_pages(page))


def _list(folder: Path) -> None:
    """Write a page into a folder, and into those below it, which lists what is there."""
    entries = sorted(folder.iterdir())
    lines = [f"- [{each.name}]({each.name}{'/README.md' if each.is_dir() else ''})" for each in entries]
    for each in entries:
        if each.is_dir():
            _list(each)
    name = folder.relative_to(SOURCE)
    (folder / "README.md").write_text("\n".join([f"# {name}", "", *lines]) + "\n")


def _to_pages(page: Path) -> str:
    """Return a page whose links to folders lead to the pages in these."""

    def led(found: re.Match[str]) -> str:
        target = found["target"]
        if "://" not in target and not target.startswith("#") and (page.parent / target).is_dir():
            return f"[{found['text']}]({target.rstrip('/')}/README.md)"
        return found[0]

    return LINK.sub(led, page.read_text())


def links(text: str) -> Iterator[str]:
    """Yield where the links and pictures of a page lead, but for those in blocks of code."""
    for found in re.finditer(r"\]\(([^()\s]+)\)", FENCE.sub("", text)):
        yield found[1]


if __name__ == "__main__":
    main()
