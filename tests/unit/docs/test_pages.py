"""The pages of the documentation: their links, and the navigation."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.docs import FENCE, PAGES, ROOT, links
from tools.spec_reference import slug

DOCS = sorted(file for file in (ROOT / "docs").rglob("*.md"))
ALL = [*DOCS, *(ROOT / name for name in PAGES)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as sites and GitHub make them."""
    heads = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", page.read_text()), re.M)
    return {slug(re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", head)) for head in heads}


@pytest.mark.parametrize("page", ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page.read_text()):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(link)
    assert broken == []


def test_a_link_to_nothing_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Head\n[a](#head) [b](#tail) [c](none.md)\n```\n[d](in-code.md)\n```\n")
    assert list(links(page.read_text())) == ["#head", "#tail", "none.md"] and anchors(page) == {"head"}


def navigation(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from navigation(each)


def test_the_navigation_has_each_page_once() -> None:
    with (ROOT / "zensical.toml").open("rb") as file:
        listed = sorted(navigation(tomllib.load(file)["project"]["nav"]))
    assert listed == sorted(str(page.relative_to(ROOT)) for page in ALL)
