"""The output of a run, a part at a time, and what a search finds in it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Any

from peloton.errors import NotFound, Refused
from peloton.model.amounts import byte_size
from peloton.present.why import ENDED
from peloton.web.pages import Page, Subject
from peloton.web.sandbox import Sandbox
from peloton.web.views.instances.rows import Run
from peloton.web.views.jobs.names import names_in
from peloton.web.views.sandbox.files import BASE, find_run, read_owner
from peloton.web.views.sandbox.log_search import LogSearch, Match, Matcher, Part, part_of
from peloton.web.views.sandbox.merging import by_time

MOST_SEARCHED_BYTES = 64 * 1024 * 1024
"""Bytes of a file that are searched."""


async def load_logs(subject: Subject) -> Mapping[str, Any]:
    """Return a part of the output of a run, or what a search finds in it."""
    search = LogSearch.of(subject.path["job_id"], subject.path["instance"], subject.query)
    owner = await read_owner(subject.calls, search.job_id, search.instance)
    shown: list[Part] = []
    matches: list[Match] = []
    notes: list[str] = []
    problem = ""
    try:
        found = await find_run(subject.calls, owner, search.run)
        shown = [await _part(found, search, name) for name in search.names]
        if search.find:
            matches, notes = await _matches(found, search)
    except (Refused, NotFound) as error:
        problem = str(error)
    run = owner.run(search.run)
    return {
        "task": owner,
        "search": search,
        "run": run,
        "names": await names_in(subject.calls, [run.reason] if run is not None else []),
        "parts": shown,
        "merged": by_time(shown),
        "matches": matches,
        "notes": notes,
        "problem": problem,
        "live": _growing(search, run) and all(part.at_end for part in shown),
        "offsets": ",".join(str(part.next) for part in shown) or ",".join("0" for _ in search.names),
    }


def _growing(search: LogSearch, run: Run | None) -> bool:
    """Return whether more may be written to the end of what is shown."""
    if run is None:
        # The first run may begin yet; a run with a number that is not known does not.
        return not search.run and not search.before
    return run.state not in ENDED and not search.before


async def _part(found: Sandbox, search: LogSearch, name: str) -> Part:
    """Read the part of a file that is shown; of the output, a file that there is not is empty."""
    try:
        size = await found.size(name)
    except NotFound:
        if len(search.names) == 1:
            raise
        return Part(name, (), 0, 0, 0)
    first, length = search.span(size)
    data = await found.read(name, first, length) if length else b""
    return part_of(search, name, first, data, size)


async def _matches(found: Sandbox, search: LogSearch) -> tuple[list[Match], list[str]]:
    """Search whole files, within bounds; return what is found, and what was left out."""
    matches: list[Match] = []
    notes: list[str] = []
    for name in search.names:
        matcher = Matcher(search, name)
        with suppress(NotFound):
            async with aclosing(found.download(name)) as pieces:
                async for piece in pieces:
                    matcher.feed(piece)
                    if matcher.full or matcher.read >= MOST_SEARCHED_BYTES:
                        break
        if matcher.full:
            notes.append(f"{name}: the first {matcher.most} matches are shown; download it to search further")
        elif matcher.read >= MOST_SEARCHED_BYTES:
            notes.append(
                f"{name}: its first {byte_size(MOST_SEARCHED_BYTES)} were searched; "
                "download it to search further"
            )
        matcher.end()
        matches += matcher.found
    return matches, notes


PAGES = (Page(f"{BASE}/logs", "logs.html", load_logs, nav="Jobs"),)
