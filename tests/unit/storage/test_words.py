"""KeywordIndex in blocks hold what a look at each job's words finds."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.jobindex import keyword_index
from storage.jobindex.keyword_index import CREATE, KeywordIndex

TEXTS = st.text(alphabet="abß\n", max_size=12)
JOBS = st.integers(0, 9).map(str)
CHANGES = st.lists(st.tuples(JOBS, st.none() | TEXTS), max_size=60)
KEYWORDS = st.lists(st.text(alphabet="abß\n", min_size=1, max_size=3), max_size=3)


@settings(deadline=None)
@given(changes=CHANGES, keywords=st.lists(KEYWORDS, min_size=1, max_size=5), block=st.integers(1, 40))
def test_they_are_found_after_any_changes(
    changes: list[tuple[str, str | None]], keywords: list[list[str]], block: int
) -> None:
    """Blocks of a few bytes, so that they are closed and moved all the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyword_index, "_BLOCK_BYTES", block)
        db = sqlite3.connect(":memory:", isolation_level=None)
        db.execute(CREATE)
        held, expected = KeywordIndex(db), dict[str, str]()
        for job_id, text in changes:
            if text is None:
                held.drop(job_id)
                expected.pop(job_id, None)
            else:
                held.put(job_id, text)
                expected[job_id] = text
        assert held.jobs() == expected.keys() and len(held) == len(expected)
        for some in keywords:
            found = {job_id for job_id, text in expected.items() if all(one in text for one in some)}
            assert held.holding(some) == found


def test_what_is_gone_leaves_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyword_index, "_BLOCK_BYTES", 100)
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute(CREATE)
    held = KeywordIndex(db)
    for number in range(1000):
        held.put(str(number % 10), "x" * 20)
    (kept,) = db.execute("SELECT total(length(text)) FROM word_blocks").fetchone()
    assert kept <= 2 * 10 * 20
