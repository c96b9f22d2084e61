"""The overview: what the cluster has and does, its daemons, and what is wrong now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from peloton.model.ids import ROOT_POOL
from peloton.web.pages import Page, Subject
from peloton.web.views.overview.daemons import daemons, leader_problems
from peloton.web.views.overview.figures import (
    problems_of,
    read_figures,
    read_hosts,
    read_jobs,
    read_problems,
)
from peloton.web.views.overview.owners import read_owners
from peloton.web.views.shared.histories import HOUR, SPANS, cluster_charts, read_history, span_of, task_charts


async def load(subject: Subject) -> Mapping[str, Any]:
    """Read the overview. What cannot be read is one of the problems."""
    calls, span = subject.calls, span_of(subject.query, HOUR)
    rows, figures, jobs, hosts, told, owners = await asyncio.gather(
        daemons(subject.cluster),
        read_figures(calls),
        read_jobs(calls, subject.now),
        read_hosts(calls),
        read_problems(calls),
        read_owners(calls),
    )
    root = figures.root.id if figures.root is not None else ROOT_POOL
    (own, why), (pools, _) = await asyncio.gather(read_history(calls, span), read_history(calls, span, root))
    return {
        "daemons": rows,
        "owners": owners,
        "problems": [*leader_problems(subject.cluster, rows), *problems_of(figures, jobs, hosts, why, told)],
        "figures": figures,
        "jobs": jobs,
        "charts": cluster_charts(own, pools),
        "history_trouble": why,
        "task_charts": task_charts(own),
        "span": span,
        "spans": SPANS,
    }


PAGES = (
    Page(
        "/",
        "overview.html",
        load,
        live=("problems", "amounts", "states", "charts", "daemons"),
        nav="Overview",
    ),
)
