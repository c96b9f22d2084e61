"""When a job that waits will start, as lines for people and as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peloton.model.amounts import duration
from peloton.model.estimate import Expected, StartEstimate
from peloton.model.plural import plural
from peloton.model.states import JobType
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import QueryRequest
    from peloton.model.job import JobSpec

ERROR_FACTOR = 1.3
"""By what factor the middle of an estimate was off in the median, when lublin_256 was replayed
(docs/simulator.md, with the command)."""
COVERED = 0.7
"""In which part of these cases the job started within the range."""
PAGES, PAGE = 3, 100
"""How many ended jobs are read, for how long they took."""
MOST_POOLS = 3
_STEPS = ((60.0, 1), (600.0, 10), (5_400.0, 60), (36_000.0, 300), (172_800.0, 3_600))
_LONGEST_STEP = 21_600


def ended_query(page: int) -> QueryRequest:
    """Return the request for a page, from 0 on, of the jobs that have ended last."""
    from peloton.api.v0.job import job_pb2
    from peloton.api.v0.query import query_pb2

    order = query_pb2.OrderBy(
        order=query_pb2.OrderBy.DESC, property=query_pb2.PropertyPath(value="completion_time")
    )
    return job_pb2.QueryRequest(
        spec=job_pb2.QuerySpec(
            jobStates=[job_pb2.SUCCEEDED, job_pb2.FAILED],
            pagination=query_pb2.PaginationSpec(offset=page * PAGE, limit=PAGE, orderBy=[order]),
        ),
        summaryOnly=True,
    )


def not_simulated(spec: JobSpec) -> str:
    """Return why the simulator cannot tell when a job starts; empty where it can."""
    if spec.type is JobType.DAEMON:
        return "daemon jobs, which follow the hosts, are not simulated"
    if spec.revocable(0) or spec.stateful:
        return "tasks that are revocable or have volumes are not simulated"
    return ""


def estimate_lines(found: StartEstimate | str) -> list[str]:
    """Return an estimate, or why there is none, as lines."""
    if isinstance(found, str):
        return [f"no estimate of the start: {clean(found)}"]
    if found.first.middle is None:
        return [_without_middle(found)]
    lines = [_likely(found), _error()]
    if found.unknown:
        lines.append(f"taken to run on: {_unknown(found)}")
    return lines


def _likely(found: StartEstimate) -> str:
    runs = f"by {plural(found.runs, 'run')} of the simulator"
    first = _time(found.first, found.within)
    if found.waiting == 1 or found.first == found.all:
        return f"likely to start in {first}, {runs}"
    if found.all.middle is None:
        last = f"the last not within {rough(found.within)}"
    else:
        last = f"the last in {_time(found.all, found.within)}"
    return f"of {plural(found.waiting, 'instance')} the first is likely to start in {first}, {last}, {runs}"


def _time(expected: Expected, within: float) -> str:
    assert expected.middle is not None
    low = rough(expected.middle if expected.low is None else expected.low)
    high = f"more than {rough(within)}" if expected.high is None else rough(expected.high)
    middle = rough(expected.middle)
    return middle if low == high == middle else f"{middle} ({low} to {high})"


def _error() -> str:
    return (
        f"estimates like this were off by a factor of {ERROR_FACTOR:.1f} in the median when replayed; "
        f"{COVERED:.0%} of the jobs started within the range"
    )


def _without_middle(found: StartEstimate) -> str:
    if found.unknown:
        return f"no estimate of the start: {_unknown(found)}"
    earliest = "" if found.first.low is None else f", at the earliest in {rough(found.first.low)}"
    runs = plural(found.runs, "run")
    return f"not likely to start within {rough(found.within)}{earliest}, by {runs} of the simulator"


def _unknown(found: StartEstimate) -> str:
    """Return a text such as `12 running tasks of /a have no limit and no runs before`."""
    told = [f"{plural(each.tasks, 'running task')} of {clean(each.pool)}" for each in found.unknown]
    more = [f"{len(told) - MOST_POOLS} more pools"] if len(told) > MOST_POOLS else []
    have = "has" if sum(each.tasks for each in found.unknown) == 1 else "have"
    return f"{', '.join([*told[:MOST_POOLS], *more])} {have} no limit and no runs before"


def rough(seconds: float) -> str:
    """Return a time span as exactly as an estimate is: `12 s`, `7 min`, `2 h 5 min`, `3 d`."""
    step = next((step for most, step in _STEPS if seconds < most), _LONGEST_STEP)
    rounded = max(step, round(seconds / step) * step)
    return duration(rounded)


def estimate_plain(found: StartEstimate | str) -> dict[str, Any]:
    """Return an estimate as plain data, times in seconds from now; null: not within `withinSeconds`."""
    if isinstance(found, str):
        return {"none": clean(found)}
    return {
        "waiting": found.waiting,
        "runs": found.runs,
        "first": _expected(found.first),
        "all": _expected(found.all),
        "withinSeconds": found.within,
        "unknown": [{"pool": each.pool, "runningTasks": each.tasks} for each in found.unknown],
        "replayed": {"medianFactor": ERROR_FACTOR, "withinRange": COVERED},
        "lines": estimate_lines(found),
    }


def _expected(expected: Expected) -> dict[str, float | None]:
    return {"seconds": expected.middle, "low": expected.low, "high": expected.high}
