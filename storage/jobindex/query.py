"""Job queries over the index tables."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence

from peloton.errors import InvalidArgument
from peloton.model.ids import JobId, PoolId, may_begin_id
from peloton.model.job import JobKey, JobPage, JobQuery, JobScope, JobSummary, TimeRange
from peloton.wire.payload import spec_from_payload
from storage.codec import JOB_RUNTIME, decode_payload
from storage.jobindex.entries import label_lines

COUNT = "SELECT count(*) FROM job_index AS i WHERE {where}"
PAGE = "SELECT job_id FROM job_index AS i WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
KEYS = "SELECT job_id{columns} FROM job_index AS i WHERE {where} ORDER BY {order} LIMIT ?"
SUMMARY = """
SELECT c.version, c.summary, j.runtime
FROM job_index AS i
JOIN jobs AS j USING (job_id)
JOIN job_configs AS c ON c.job_id = i.job_id AND c.version = i.config_version
WHERE i.job_id = ?
"""
HAS_KEYWORDS = (
    "EXISTS (SELECT 1 FROM job_configs AS c WHERE c.job_id = i.job_id AND c.version = i.config_version "
    "AND {each})"
)
HAS_KEYWORD = "instr(c.words, ?) > 0"
LOST = f"""
SELECT i.pool_id, total(json_extract(j.runtime, '$[{JOB_RUNTIME.place("resource_usage")}].lost'))
FROM jobs AS j JOIN job_index AS i USING (job_id)
WHERE instr(j.runtime, '"lost":') > 0 AND {{where}}
GROUP BY i.pool_id
"""
"""The condition spares most jobs the parsing: 100,000 jobs, a tenth of which have lost work, take 60 ms."""
SORTED_BY = ("creation_time", "completion_time", "name", "owner", "state")

MOST_WORDS = 100
LONGEST_NAME_CHARACTERS = 10_000
"""Bounds of a query; SQLite cannot handle several times as much."""

Term = tuple[str, Sequence[object]]
"""A condition and the values of its places."""
EACH: Term = ("1", ())
"""Holds for each job."""


def has_keywords(keywords: Sequence[str]) -> Term:
    """Match jobs whose config has all the keywords, which are case folded, as substrings of its words."""
    return HAS_KEYWORDS.format(each=" AND ".join([HAS_KEYWORD] * len(keywords))), keywords


def find(
    query: JobQuery, db: sqlite3.Connection, by_keywords: Callable[[Sequence[str]], Term] = has_keywords
) -> JobPage:
    """Answer a query. Jobs that are equal in all sort columns are ordered by id.

    Raises InvalidArgument for an order by an unknown property, and for too many or too long words.
    """
    where, values = _where(query, by_keywords)
    (total,) = db.execute(COUNT.format(where=where), values).fetchone()
    if query.max_limit:
        total = min(total, query.max_limit)
    size = max(0, min(query.limit, total - query.offset))
    page = PAGE.format(where=where, order=_order(query))
    found = db.execute(page, (*values, size, query.offset)).fetchall()
    return JobPage(summaries(db, [job_id for (job_id,) in found]), total)


def find_keys(
    query: JobQuery, db: sqlite3.Connection, by_keywords: Callable[[Sequence[str]], Term], *more: Term
) -> tuple[tuple[JobKey, ...], int]:
    """Return the keys of the jobs up to the end of the query's page, and the number of all matches.

    All terms must hold, `more` too. Raises as `find`.
    """
    where, values = _where(query, by_keywords, *more)
    (total,) = db.execute(COUNT.format(where=where), values).fetchone()
    columns = "".join(f", {column}" for column, _ in query.order)
    statement = KEYS.format(where=where, order=_order(query), columns=columns)
    rows = db.execute(statement, (*values, query.offset + query.limit)).fetchall()
    return tuple(JobKey(job_id, tuple(row)) for job_id, *row in rows), total


def summaries(db: sqlite3.Connection, job_ids: Collection[JobId]) -> tuple[JobSummary, ...]:
    """Return the jobs that are there."""
    found = (db.execute(SUMMARY, (job_id,)).fetchone() for job_id in job_ids)
    return tuple(_summary(job_id, *row) for job_id, row in zip(job_ids, found, strict=True) if row)


def lost_seconds(db: sqlite3.Connection, more: Term = EACH) -> dict[PoolId, float]:
    """Return the seconds of work that jobs have lost since checkpoints, by pool, of jobs with the term."""
    where, values = more
    return {pool: seconds for pool, seconds in db.execute(LOST.format(where=where), values) if seconds > 0}


def _where(
    query: JobQuery, by_keywords: Callable[[Sequence[str]], Term], *more: Term
) -> tuple[str, list[object]]:
    _check(query)
    terms = [*_terms(query), *more]
    if query.keywords:
        terms.append(by_keywords([keyword.casefold() for keyword in query.keywords]))
    where = " AND ".join(condition for condition, _ in terms) or "1"
    return where, [value for _, some in terms for value in some]


def _check(query: JobQuery) -> None:
    for field, words in (("labels", query.labels), ("keywords", query.keywords)):
        if len(words) > MOST_WORDS:
            raise InvalidArgument(field, f"a list of {len(words)}", f"one of at most {MOST_WORDS}")
    for field, text in (("name", query.name), ("reference", query.reference)):
        if len(text) > LONGEST_NAME_CHARACTERS:
            raise InvalidArgument(field, text, f"a text of at most {LONGEST_NAME_CHARACTERS:,} characters")


def _terms(query: JobQuery) -> Iterator[Term]:
    if query.states:
        yield f"state IN ({','.join('?' * len(query.states))})", sorted(map(int, query.states))
    if query.pool_id:
        yield "pool_id = ?", (query.pool_id,)
    if query.owner:
        yield "owner = ?", (query.owner,)
    if query.name:
        yield "name GLOB ?", (_glob(query.name),)
    if query.exact_name:
        yield "name = ?", (query.exact_name,)
    if query.reference:
        yield _referred(query.reference)
    if query.ids is not None:
        yield "job_id IN (SELECT value FROM json_each(?))", (json.dumps(sorted(query.ids)),)
    if query.within is not None:
        parts = [_part(part) for part in query.within]
        values = [value for _, some in parts for value in some]
        yield f"({' OR '.join(condition for condition, _ in parts) or '0'})", values
    yield from _bounded("creation_time", query.created)
    if query.completed is not None:
        yield "completion_time > 0", ()
        yield from _bounded("completion_time", query.completed)
    for label in query.labels:
        yield "instr(labels, ?) > 0", (label_lines([label]),)


def _referred(reference: str) -> Term:
    if may_begin_id(reference):
        return "(name = ? OR lower(job_id) GLOB ?)", (reference, f"{reference.lower()}*")
    return "name = ?", (reference,)


def _part(part: JobScope) -> Term:
    pools = "1" if part.pools is None else f"pool_id IN ({','.join('?' * len(part.pools))})"
    owner = "1" if part.owner is None else "owned_by = ?"
    return f"({pools} AND {owner})", [
        *sorted(part.pools or ()),
        *([] if part.owner is None else [part.owner]),
    ]


def _bounded(column: str, bounds: TimeRange) -> Iterator[Term]:
    if bounds.start is not None:
        yield f"{column} >= ?", (bounds.start,)
    if bounds.end is not None:
        yield f"{column} <= ?", (bounds.end,)


def _glob(name: str) -> str:
    """Turn a name into a GLOB pattern: `[` stands for itself; without `*` and `?` a substring matches."""
    pattern = name.replace("[", "[[]")
    return pattern if "*" in name or "?" in name else f"*{pattern}*"


def _order(query: JobQuery) -> str:
    columns = []
    for column, descending in query.order:
        if column not in SORTED_BY:
            raise InvalidArgument("order", column, f"one of {', '.join(SORTED_BY)}")
        columns.append(f"{column} {'DESC' if descending else 'ASC'}")
    return ", ".join([*columns, "job_id"])


def _summary(job_id: JobId, version: int, summary: bytes, runtime: str) -> JobSummary:
    spec = spec_from_payload(decode_payload(summary), version)
    return JobSummary(job_id, spec, JOB_RUNTIME.decode(runtime))
