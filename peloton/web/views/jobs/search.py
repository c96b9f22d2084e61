"""Searches for jobs: the form, its address, the request, and the rows that are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.errors import InvalidArgument
from peloton.model.states import TERMINAL_JOB_STATES, JobState
from peloton.web.formats import seconds_of
from peloton.web.views.jobs.counts import counts

PAGE = 50
"""Jobs on a page."""
STATES = ("PENDING", "RUNNING", "KILLING", "SUCCEEDED", "FAILED", "KILLED", "INITIALIZED")
"""States that the form offers, the usual ones first."""
SORTS = {
    "creation_time": "created",
    "completion_time": "completed",
    "name": "name",
    "owner": "owner",
    "state": "state",
}
SPANS: Mapping[str, tuple[str, int]] = {
    "1h": ("the last hour", 3600),
    "6h": ("the last 6 hours", 6 * 3600),
    "1d": ("the last day", 86400),
    "7d": ("the last 7 days", 7 * 86400),
    "30d": ("the last 30 days", 30 * 86400),
    "365d": ("the last year", 365 * 86400),
}
_MOST_PAGES = 1_000_000


@dataclass(frozen=True, slots=True)
class JobSearch:
    """What a search looks for; each is a parameter of its address."""

    name: str = ""
    owner: str = ""
    labels: str = ""
    """`key=value`, several with commas between them."""
    pool: str = ""
    """A path."""
    words: str = ""
    """Words anywhere in the config."""
    state: tuple[str, ...] = ()
    crash_looping: str = ""
    """Set: services whose instances wait after failures."""
    created: str = ""
    """A key of SPANS."""
    after: str = ""
    before: str = ""
    """Dates, `2026-01-31`: created on or after the one, before the end of the other."""
    ended: str = ""
    """A key of SPANS: completed within it."""
    sort: str = "-creation_time"
    """A key of SORTS; with `-` before it, largest first."""
    page: int = 1

    @classmethod
    def of(cls, query: QueryParams) -> JobSearch:
        """Return the search of an address. Raises InvalidArgument."""
        texts = {
            each.name: query.get(each.name, "").strip()
            for each in fields(cls)
            if each.name not in ("state", "page", "sort")
        }
        states = tuple(dict.fromkeys(text.upper() for text in query.getlist("state") if text))
        for name in ("created", "ended"):
            if texts[name] and texts[name] not in SPANS:
                raise InvalidArgument(name, texts[name], f"one of {', '.join(SPANS)}")
        for state in states:
            if state not in JobState.__members__:
                raise InvalidArgument("state", state, f"one of {', '.join(STATES)}")
        sort = order_of(query, SORTS, "-creation_time")
        return cls(**texts, state=states, sort=sort, page=page_number(query))

    @property
    def url(self) -> str:
        """Return the address of this search."""
        pairs: list[tuple[str, str]] = []
        for each in fields(self):
            value = getattr(self, each.name)
            if value != each.default:
                values = value if each.name == "state" else [str(value)]
                pairs += [(each.name, text) for text in values]
        return f"/jobs?{urlencode(pairs)}" if pairs else "/jobs"

    @property
    def narrow(self) -> bool:
        """Whether anything is searched for."""
        return replace(self, sort="-creation_time", page=1) != JobSearch()

    @property
    def detailed(self) -> bool:
        """Whether more is searched for than name, owner, state and whether it crash-loops."""
        return replace(self, name="", owner="", state=(), crash_looping="").narrow

    @property
    def ended_only_lately(self) -> bool:
        """Whether the server looks 7 days back only: for terminal states without a time."""
        timed = self.created or self.after or self.before or self.ended
        return not timed and any(JobState[state] in TERMINAL_JOB_STATES for state in self.state)

    def request(self, now: float) -> job_pb2.QueryRequest:
        """Return the request for the page; `now` in seconds since 1970. Raises InvalidArgument."""
        spec = job_pb2.QuerySpec(
            name=self.name,
            owner=self.owner,
            labels=_labels(self.labels),
            keywords=self.words.split(),
            crashLooping=bool(self.crash_looping),
            jobStates=[job_pb2.JobState.Value(state) for state in self.state],
            respool=respool_pb2.ResourcePoolPath(value=self.pool),
            pagination=page_of(self.page, PAGE, self.sort),
        )
        _set_range(spec.creationTimeRange, *self._created(now))
        if self.ended:
            _set_range(spec.completionTimeRange, now - SPANS[self.ended][1], now + 60)
        return job_pb2.QueryRequest(spec=spec, summaryOnly=True)

    def _created(self, now: float) -> tuple[float | None, float | None]:
        first, last = _day("after", self.after), _day("before", self.before)
        if self.created:
            first = max(first or 0.0, now - SPANS[self.created][1])
        # To the minute: requests of the same search are alike then, and share an answer.
        return None if first is None else first // 60 * 60, None if last is None else last + 86400


def page_number(query: QueryParams) -> int:
    """Return the page that an address names, 1 without. Raises InvalidArgument."""
    text = query.get("page") or "1"
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= _MOST_PAGES):
        raise InvalidArgument("page", text, "a number from 1")
    return int(text)


def order_of(query: QueryParams, known: Iterable[str], usual: str) -> str:
    """Return the order that an address names. Raises InvalidArgument."""
    order = query.get("sort") or usual
    if order.removeprefix("-") not in known:
        raise InvalidArgument("sort", order, f"one of {', '.join(known)}, with - before it: largest first")
    return order


def page_of(page: int, size: int, order: str) -> query_pb2.PaginationSpec:
    """Return a page of a query, counted from 1."""
    wire = query_pb2.PaginationSpec(offset=(page - 1) * size, limit=size)
    direction = query_pb2.OrderBy.DESC if order.startswith("-") else query_pb2.OrderBy.ASC
    wire.orderBy.add(order=direction).property.value = order.removeprefix("-")
    return wire


def _labels(text: str) -> list[peloton_pb2.Label]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InvalidArgument("labels", part, "key=value, several with commas between them")
        found.append(peloton_pb2.Label(key=key.strip(), value=value.strip()))
    return found


def _day(name: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidArgument(name, text, "a date such as 2026-01-31") from None


def _set_range(target: peloton_pb2.TimeRange, first: float | None, last: float | None) -> None:
    if first is not None:
        target.min.FromSeconds(int(first))
    if last is not None:
        target.max.FromSeconds(int(last))


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in a list."""

    id: str
    name: str
    type: str
    owner: str
    pool_id: str
    pool: str
    """Its path; the id where no pool has it."""
    state: str
    created: float
    ended: float
    """0 where it has not."""
    instances: int
    counts: Sequence[tuple[str, int]] = ()
    reason: str = ""
    """Why it is in its state, such as that it crash-loops."""


def job_row(job: job_pb2.JobSummary, pools: Mapping[str, str]) -> JobRow:
    """Return the row of a job; `pools` are the paths of pools by their ids."""
    runtime, pool = job.runtime, job.respoolID.value
    return JobRow(
        id=job.id.value,
        name=job.name or "(no name)",
        type=job_pb2.JobType.Name(job.type).lower(),
        owner=job.owningTeam or job.owner,
        pool_id=pool,
        pool=pools.get(pool, pool),
        state=job_pb2.JobState.Name(runtime.state),
        created=seconds_of(runtime.creationTime),
        ended=seconds_of(runtime.completionTime),
        instances=job.instanceCount,
        counts=counts(runtime.taskStats, job.instanceCount),
        reason=runtime.reason,
    )


@dataclass(frozen=True, slots=True)
class JobList:
    """A page of the jobs that a search finds."""

    search: JobSearch
    rows: Sequence[JobRow]
    total: int
    pools: Sequence[str]
    """Paths that the form offers."""


def job_list(
    search: JobSearch, answer: job_pb2.QueryResponse, pools: Iterable[respool_pb2.ResourcePoolInfo]
) -> JobList:
    """Return the page that an answer holds."""
    paths = {pool.id.value: pool.path.value for pool in pools}
    rows = [job_row(job, paths) for job in answer.results]
    return JobList(search, rows, answer.pagination.total, sorted(filter(None, paths.values())))
