"""Write the Grafana dashboards: `python -m tools.dashboards` (make dashboards).

They expect a scrape job for each daemon, named after it, as deploy/prometheus/prometheus.yml has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "grafana"
SCHEMA = 39
"""Of Grafana 11."""
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
Json = dict[str, Any]


def led(selector: str) -> str:
    """Return a selector of what leaders say: a process that has stepped down keeps its last figures."""
    return f"({selector} and on (instance) health_leader == 1)"


def rate(selector: str) -> str:
    """Return the rate of a counter, per second."""
    return f"rate({selector}[$__rate_interval])"


def quantile(share: float, histogram: str, *labels: str) -> str:
    """Return a quantile of a histogram's last values."""
    return f"histogram_quantile({share:g}, sum by ({', '.join(('le', *labels))}) ({rate(histogram)}))"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel with its queries, each with its legend."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    width: int = 8
    height: int = 8
    kind: str = "timeseries"
    stacked: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the head of a dashboard: the values of a label."""

    name: str
    metric: str
    label: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A dashboard; its name is that of its file."""

    name: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[Variable] = ()


def number(title: str, query: str, unit: str = "short", about: str = "") -> Panel:
    """Return a panel with one number."""
    return Panel(title, [(query, "")], unit, width=4, height=4, kind="stat", about=about)


def numbers(title: str, queries: Sequence[tuple[str, str]], width: int = 8) -> Panel:
    """Return a panel with a number for each series."""
    return Panel(title, queries, width=width, height=4, kind="stat")


def text(content: str) -> Panel:
    """Return a panel with Markdown."""
    return Panel("", (), width=WIDTH, height=3, kind="text", about=content)


def calls(daemon: str) -> list[Panel]:
    """Return what every daemon has: its leader, its calls, its process."""
    of = f'{{job="{daemon}"}}'
    calls_of = f'rpc_calls_total{{job="{daemon}", status="OK"}}'
    failed = f'rpc_calls_total{{job="{daemon}", status!="OK"}}'
    seconds = f'rpc_call_seconds_bucket{{job="{daemon}"}}'
    return [
        Panel("Calls a second", [(f"sum by (method) ({rate(calls_of)})", "{{method}}")], "reqps"),
        Panel("Refused and failed", [(f"sum by (method, status) ({rate(failed)})", "{{status}} {{method}}")]),
        Panel("95% are served within", [(quantile(0.95, seconds, "method"), "{{method}}")], "s"),
        Panel("CPU", [(rate(f"process_cpu_seconds_total{of}"), "{{instance}}")], "percentunit"),
        Panel("Memory", [(f"process_resident_memory_bytes{of}", "{{instance}}")], "bytes"),
        Panel(
            "Heartbeat",
            [(f"health_heartbeat{of}", "{{instance}}"), (f"health_leader{of}", "leader {{instance}}")],
        ),
    ]


def by_kind(kind: str, unit: str, pool: str) -> Panel:
    """Return the amounts of a pool, of one kind."""
    of = f'{{pool="{pool}", kind="{kind}"}}'
    names = ("allocation", "demand", "entitlement", "reservation", "limit")
    queries = [(led(f"resmgr_pool_{name}{of}"), name) for name in names]
    return Panel(f"{kind}", queries, unit, width=12)


UNITS = {"cpu": "short", "memory": "decmbytes", "disk": "decmbytes", "gpu": "short"}
ROOT = 'pool="/"'
ENDED = "jobmgr_task_steps_total{state=~`SUCCEEDED|FAILED|KILLED|LOST`}"

CLUSTER = Dashboard(
    "cluster",
    "Peloton: cluster",
    [
        numbers("Leaders", [("sum by (job) (health_leader)", "{{job}}")], width=12),
        number("Agents", led("hostmgr_agents")),
        number("Subscribed with Mesos", led("hostmgr_subscribed")),
        number("Active jobs", led("jobmgr_active_jobs")),
        *(
            Panel(
                f"{kind} of the cluster",
                [
                    (led(f'hostmgr_capacity{{kind="{kind}"}}'), "capacity"),
                    (led(f'hostmgr_allocation{{kind="{kind}"}}'), "on hosts"),
                    (led(f'resmgr_pool_allocation{{{ROOT}, kind="{kind}"}}'), "admitted"),
                    (led(f'resmgr_pool_demand{{{ROOT}, kind="{kind}"}}'), "waiting"),
                ],
                UNITS[kind],
                width=6,
            )
            for kind in UNITS
        ),
        Panel("Tasks by state", [(led("jobmgr_tasks") + " > 0", "{{state}}")], width=12, stacked=True),
        Panel("Jobs by state", [(led("jobmgr_jobs"), "{{type}} {{state}}")], width=12, stacked=True),
        Panel(
            "Tasks a second",
            [
                (f"sum ({rate('hostmgr_tasks_launched_total')})", "launched"),
                (f"sum ({rate('placement_tasks_placed_total')})", "placed"),
                (f"sum ({rate('jobmgr_task_steps_total{state=~`RUNNING`}')})", "begun to run"),
            ],
        ),
        Panel(
            "Tasks that end a second",
            [(f"sum by (state) ({rate(ENDED)})", "{{state}}")],
        ),
        Panel(
            "Hosts that take no tasks",
            [
                (led("hostmgr_hosts_in_maintenance"), "{{state}}"),
                (led("hostmgr_hosts_lost"), "LOST"),
                (led("hostmgr_reserved_hosts"), "reserved"),
                (led("hostmgr_held_hosts"), "held"),
            ],
        ),
        Panel(
            "From queued to running, 95%",
            [(quantile(0.95, "resmgr_pending_to_running_seconds_bucket"), "to running")],
            "s",
        ),
        Panel(
            "Calls that failed",
            [(f"sum by (job, status) ({rate('rpc_calls_total{status!=`OK`}')})", "{{job}} {{status}}")],
        ),
        Panel(
            "CPU of the daemons", [(rate("process_cpu_seconds_total"), "{{job}} {{instance}}")], "percentunit"
        ),
    ],
)
POOL = Dashboard(
    "pool",
    "Peloton: pool",
    [
        *(by_kind(kind, unit, "$pool") for kind, unit in UNITS.items()),
        Panel("Gangs that wait", [(led('resmgr_pool_pending{pool="$pool"}'), "{{queue}}")], stacked=True),
        Panel(
            "From queued to admitted",
            [
                (quantile(0.5, 'resmgr_pending_to_ready_seconds_bucket{pool="$pool"}'), "half within"),
                (quantile(0.95, 'resmgr_pending_to_ready_seconds_bucket{pool="$pool"}'), "95% within"),
            ],
            "s",
        ),
        Panel(
            "From enqueued to running",
            [
                (quantile(0.5, 'resmgr_pending_to_running_seconds_bucket{pool="$pool"}'), "half within"),
                (quantile(0.95, 'resmgr_pending_to_running_seconds_bucket{pool="$pool"}'), "95% within"),
            ],
            "s",
        ),
        Panel(
            "Slack: held by revocable tasks",
            [(led('resmgr_pool_slack_allocation{pool="$pool"}'), "{{kind}}")],
            width=12,
        ),
        Panel(
            "Preempted tasks a second",
            [(f"sum by (policy) ({rate('resmgr_preempted_tasks_total{pool=`$pool`}')})", "{{policy}}")],
            width=12,
        ),
    ],
    [Variable("pool", "resmgr_pool_entitlement", "pool")],
)
JOB = Dashboard(
    "job",
    "Peloton: job",
    [
        text(
            "Job by job, only the largest jobs are shown, and only where the setting `shown_jobs` of jobmgr "
            "says how many: a series for each job and state is more than most clusters want to keep. The "
            "web UI shows every job. Below are all jobs together."
        ),
        Panel(
            "Tasks of the job by state",
            [(led('jobmgr_job_tasks{job_id="$job_id"}'), "{{state}}")],
            width=24,
            stacked=True,
        ),
        Panel("Jobs by state", [(led("jobmgr_jobs"), "{{type}} {{state}}")], width=12, stacked=True),
        Panel("Tasks by state", [(led("jobmgr_tasks") + " > 0", "{{state}}")], width=12, stacked=True),
        Panel(
            "Steps of tasks a second", [(f"sum by (state) ({rate('jobmgr_task_steps_total')})", "{{state}}")]
        ),
        Panel("Jobs that end a second", [(f"sum ({rate('jobmgr_ended_jobs_total')})", "ended")]),
        Panel("Silent workflows", [(led("jobmgr_silent_workflows"), "silent")]),
    ],
    [Variable("job_id", "jobmgr_job_tasks", "job_id")],
)
JOBMGR = Dashboard(
    "jobmgr",
    "Peloton: jobmgr",
    [
        *calls("jobmgr"),
        Panel(
            "Cycles",
            [
                (quantile(0.5, "jobmgr_cycle_seconds_bucket"), "half within"),
                (quantile(0.99, "jobmgr_cycle_seconds_bucket"), "99% within"),
            ],
            "s",
        ),
        Panel(
            "Steps of tasks a second", [(f"sum by (state) ({rate('jobmgr_task_steps_total')})", "{{state}}")]
        ),
        Panel(
            "Recovery",
            [
                (led("jobmgr_recovery_jobs"), "jobs stored"),
                (led("jobmgr_recovery_jobs_read"), "jobs read"),
                (led("jobmgr_recovery_tasks_read"), "tasks read"),
                (led("jobmgr_recovery_settled"), "settled"),
            ],
        ),
        Panel(
            "Compared with resmgr",
            [
                (f"sum ({rate('jobmgr_compared_runs_total')})", "compared"),
                (f"sum ({rate('jobmgr_missing_runs_total')})", "missing"),
            ],
        ),
    ],
)
RESMGR = Dashboard(
    "resmgr",
    "Peloton: resmgr",
    [
        *calls("resmgr"),
        Panel("Runs", [(led("resmgr_tasks"), "held"), (led("resmgr_orphans"), "orphans")]),
        Panel("Gangs that wait for an engine", [(led("resmgr_ready_gangs"), "{{type}}")]),
        Panel(
            "On their way",
            [(led("resmgr_leased_tasks"), "leased"), (led("resmgr_placements"), "placements for jobmgr")],
        ),
        Panel(
            "Gangs that wait, by pool", [(f"sum by (pool) ({led('resmgr_pool_pending')}) > 0", "{{pool}}")]
        ),
        Panel(
            "Preempted a second",
            [(f"sum by (pool, policy) ({rate('resmgr_preempted_tasks_total')})", "{{pool}} {{policy}}")],
        ),
        Panel("Repaired", [(f"sum by (done) ({rate('resmgr_repaired_tasks_total')})", "{{done}}")]),
        Panel(
            "Recovery",
            [
                (led("resmgr_recovery_jobs"), "jobs stored"),
                (led("resmgr_recovery_jobs_read"), "jobs read"),
                (led("resmgr_recovery_settled"), "settled"),
            ],
        ),
    ],
)
PLACEMENT = Dashboard(
    "placement",
    "Peloton: placement",
    [
        *calls("placement"),
        Panel(
            "Tasks a second",
            [
                (f"sum by (instance) ({rate('placement_tasks_placed_total')})", "placed {{instance}}"),
                (f"sum by (instance) ({rate('placement_tasks_rejected_total')})", "rejected {{instance}}"),
            ],
        ),
        Panel("Gangs unplaced a second", [(rate("placement_gangs_failed_total"), "{{instance}}")]),
        Panel("Gangs taken and not settled", [("placement_gangs_waiting", "{{type}} {{instance}}")]),
        Panel(
            "Hosts a second",
            [
                (rate("placement_hosts_claimed_total"), "claimed {{instance}}"),
                (rate("placement_hosts_unused_total"), "unused {{instance}}"),
            ],
        ),
        Panel(
            "Reserved hosts",
            [
                (rate("placement_tasks_reserved_total"), "tasks placed on their own {{instance}}"),
                (rate("placement_tasks_backfilled_total"), "backfilled {{instance}}"),
            ],
        ),
    ],
)
HOSTMGR = Dashboard(
    "hostmgr",
    "Peloton: hostmgr",
    [
        *calls("hostmgr"),
        Panel("Agents", [(led("hostmgr_agents"), "agents"), (led("hostmgr_subscribed"), "subscribed")]),
        Panel("Tasks launched a second", [(f"sum ({rate('hostmgr_tasks_launched_total')})", "launched")]),
        Panel(
            "Statuses a second",
            [
                (f"sum by (result) ({rate('hostmgr_statuses_total')})", "{{result}}"),
                (f"sum ({rate('hostmgr_acknowledged_total')})", "acknowledged"),
            ],
        ),
        Panel("Events that jobmgr has not passed", [(led("hostmgr_events_pending"), "events")]),
        Panel("Offers a second", [(f"sum ({rate('hostmgr_offers_total')})", "offers")]),
        Panel("Reconciled a second", [(f"sum ({rate('hostmgr_reconciled_total')})", "runs")]),
        Panel(
            "In maintenance, and lost",
            [(led("hostmgr_hosts_in_maintenance"), "{{state}}"), (led("hostmgr_hosts_lost"), "LOST")],
        ),
        Panel(
            "Reserved",
            [(led("hostmgr_reservations"), "reservations"), (led("hostmgr_reserved_hosts"), "hosts")],
        ),
        Panel(
            "Hosts of host pools",
            [
                (led("hostmgr_host_pool_hosts"), "{{pool}}"),
                (led("hostmgr_host_pool_moving"), "on their way to {{pool}}"),
            ],
        ),
        *(
            Panel(
                f"{kind}",
                [
                    (led(f'hostmgr_capacity{{kind="{kind}"}}'), "capacity"),
                    (led(f'hostmgr_allocation{{kind="{kind}"}}'), "allocated"),
                ],
                unit,
                width=6,
            )
            for kind, unit in UNITS.items()
        ),
    ],
)
ARCHIVER = Dashboard(
    "archiver",
    "Peloton: archiver",
    [
        *calls("archiver"),
        Panel("Jobs archived a second", [(f"sum ({rate('archiver_jobs_archived_total')})", "archived")]),
        Panel("Jobs that could not be archived", [(f"sum ({rate('archiver_failures_total')})", "a second")]),
    ],
)
ALL = (CLUSTER, POOL, JOB, JOBMGR, RESMGR, PLACEMENT, HOSTMGR, ARCHIVER)


def as_json(dashboard: Dashboard) -> Json:
    """Return a dashboard as Grafana takes it."""
    return {
        "uid": f"peloton-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["peloton"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "links": [
            {
                "type": "dashboards",
                "tags": ["peloton"],
                "asDropdown": True,
                "title": "Peloton",
                "keepTime": True,
            }
        ],
        "annotations": {"list": []},
        "templating": {"list": [_source(), *map(_variable, dashboard.variables)]},
        "panels": list(_panels(dashboard.panels)),
    }


def _source() -> Json:
    return {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Prometheus",
        "hide": 0,
        "refresh": 1,
        "multi": False,
        "includeAll": False,
        "current": {},
        "options": [],
    }


def _variable(variable: Variable) -> Json:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "name": variable.name,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "current": {},
        "options": [],
    }


def _panels(panels: Sequence[Panel]) -> Iterator[Json]:
    """Lay the panels out in rows, from left to right."""
    x = y = height = 0
    for number_, panel in enumerate(panels, 1):
        if x + panel.width > WIDTH:
            x, y, height = 0, y + height, 0
        place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
        yield {"id": number_, "title": panel.title, "gridPos": place, **_content(panel)}
        x, height = x + panel.width, max(height, panel.height)


def _content(panel: Panel) -> Json:
    if panel.kind == "text":
        return {"type": "text", "options": {"mode": "markdown", "content": panel.about}}
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 40} if panel.stacked else {}
    options: Json = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    return {
        "type": panel.kind,
        "description": panel.about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": SOURCE,
                "editorMode": "code",
                "range": True,
                "expr": query,
                "legendFormat": legend or "__auto",
            }
            for i, (query, legend) in enumerate(panel.queries)
        ],
    }


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for dashboard in ALL:
        (FOLDER / f"{dashboard.name}.json").write_text(json.dumps(as_json(dashboard), indent=1) + "\n")


if __name__ == "__main__":
    main()
