"""The pages of a busy cluster, and of one that nobody has used, in a real browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from . import lively, lively_places
from .watched import LARGE, SMALL, Look, tab

LOOKS = (Look("light", *SMALL), Look("dark", *LARGE))


@pytest.fixture(scope="module")
def busy() -> Iterator[lively.Lively]:
    with lively.temporary(lively.lively) as made:
        yield made


@pytest.fixture(scope="module")
def unused() -> Iterator[lively.Lively]:
    with lively.temporary(lively.empty) as made:
        yield made


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_the_pages_of_a_busy_cluster_are_sound(
    browser: Browser, busy: lively.Lively, look: Look, subtests: pytest.Subtests
) -> None:
    titles: dict[str, str] = {}
    with tab(browser, busy.url, look) as opened:
        for name, path in lively_places.places(busy).items():
            with subtests.test(name):
                opened.open(path)
                opened.check_access()
                opened.check()
                titles[path.partition("?")[0]] = opened.page.title()
        for name, step in lively_places.steps(busy).items():
            with subtests.test(name):
                step(opened)
                opened.forgive(400)
                opened.check_access()
                opened.check()
    twice = [title for title, count in Counter(titles.values()).items() if count > 1]
    assert not twice, {path: title for path, title in titles.items() if title in twice}
    assert all(title.endswith("· Peloton") and not title.startswith("·") for title in titles.values()), titles


@pytest.mark.parametrize("look", LOOKS, ids=str)
def test_the_pages_of_a_cluster_that_nobody_has_used_are_sound(
    browser: Browser, unused: lively.Lively, look: Look, subtests: pytest.Subtests
) -> None:
    with tab(browser, unused.url, look) as opened:
        for name, path in lively_places.empty_places().items():
            with subtests.test(name):
                opened.open(path)
                opened.check_access()
                opened.check()
