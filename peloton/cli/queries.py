"""Flags of the queries for jobs, and the request made from them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import click

from peloton.cli.live_names import live_pools
from peloton.cli.params import COUNT, EnumName, Labels, Offset, WholeNumber, Words

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import QueryRequest
    from peloton.api.v0.query.query_pb2 import PaginationSpec

PAGE = 100
"""Largest page that the server gives (docs/behaviour/jobs.md)."""
JOB_NAME = (
    "Jobs whose name matches this wildcard: * stands for any text, ? for one character; "
    "without either, a part of the name is enough."
)


def _job_states() -> Any:
    from peloton.api.v0.job import job_pb2

    return job_pb2.JobState.DESCRIPTOR


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Values of the query flags (docs/behaviour/command-line.md). `timerange` is in days before now."""

    labels: list[tuple[str, str]] = field(default_factory=list)
    respool: str = ""
    keywords: list[str] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    owner: str = ""
    name: str = ""
    timerange: int = 0
    limit: int = PAGE
    total: int = 100
    offset: int = 0
    sort: list[str] = field(default_factory=lambda: ["creation_time"])
    sortorder: str = "DESC"
    crash_looping: bool = False

    def request(self, now: float | None = None) -> QueryRequest:
        """Return the request for JobManager.Query; `now` is in seconds since 1970."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.job import job_pb2
        from peloton.api.v0.respool import respool_pb2

        spec = job_pb2.QuerySpec(
            pagination=pagination(self.limit, self.offset, self.sort, self.sortorder, self.total),
            labels=[peloton_pb2.Label(key=key, value=value) for key, value in self.labels],
            keywords=self.keywords,
            jobStates=[job_pb2.JobState.ValueType(state) for state in self.states],
            owner=self.owner,
            name=self.name,
            crashLooping=self.crash_looping,
        )
        if self.respool:
            spec.respool.CopyFrom(respool_pb2.ResourcePoolPath(value=self.respool))
        if self.timerange:
            end = time.time() if now is None else now
            spec.creationTimeRange.min.FromSeconds(int(end) - self.timerange * 86400)
            spec.creationTimeRange.max.FromSeconds(int(end) + 1)
        return job_pb2.QueryRequest(spec=spec, summaryOnly=True)


def pagination(limit: int, offset: int, sort: list[str], order: str, total: int = 0) -> PaginationSpec:
    """Return a page of a v0 query; all sort keys have the same direction."""
    from peloton.api.v0.query import query_pb2

    direction = query_pb2.OrderBy.ASC if order == "ASC" else query_pb2.OrderBy.DESC
    by = [query_pb2.OrderBy(order=direction, property=query_pb2.PropertyPath(value=key)) for key in sort]
    return query_pb2.PaginationSpec(offset=offset, limit=limit, orderBy=by, maxLimit=total)


def job_query_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of job queries."""
    decorated = _all(
        click.option("-l", "--labels", type=Labels(), default="", help="Jobs that have all of these labels."),
        click.option(
            "-r", "--respool", default="", shell_complete=live_pools, help="Jobs of the pool at this path."
        ),
        click.option("-k", "--keywords", type=Words(), default="", help="Words that the config holds."),
        click.option(
            "-s", "--states", type=EnumName(_job_states), default="", help="Only jobs in any of STATES."
        ),
        click.option("--owner", default="", help="Jobs of this owner."),
        click.option("--name", default="", help=JOB_NAME),
        click.option(
            "-d",
            "--timerange",
            type=WholeNumber(0, 36500),
            default=0,
            help="Only jobs created in this number of days.",
        ),
        page_options("creation_time", "DESC"),
        click.option("--crash-looping", is_flag=True, help="Services whose instances wait after failures."),
        click.option(
            "-q", "--total", type=COUNT, default=100, show_default=True, help="Number of jobs to examine."
        ),
    )(command)
    return cast("Callable[..., Any]", decorated)


def page_options(sort: str, order: str) -> Callable[..., Any]:
    """Return a decorator that adds the flags for the page and its order."""
    orders = click.Choice(["ASC", "DESC"], case_sensitive=False)
    return _all(
        click.option(
            "-n",
            "--limit",
            type=WholeNumber(1, PAGE),
            default=PAGE,
            show_default=True,
            help="Number of jobs to show.",
        ),
        click.option("-o", "--offset", type=Offset(), default=0, help="Number of jobs to leave out first."),
        click.option("-p", "--sort", type=Words(), default=sort, show_default=True, help="Sort by these."),
        click.option(
            "-a",
            "--sortorder",
            type=orders,
            default=order,
            show_default=True,
            help="Smallest or largest first.",
        ),
    )


def _all(*options: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
