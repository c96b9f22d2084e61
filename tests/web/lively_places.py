"""An address of each page of a busy cluster and of one that nobody has used, and what forms answer there."""

from __future__ import annotations

from collections.abc import Callable

from .lively import DOWN, LONG, LOST, Lively
from .watched import Watched


def places(made: Lively) -> dict[str, str]:
    """Return addresses of pages of the busy cluster, by a name for each."""
    shop, training = made.pool("/shop"), made.pool("/research/training")
    return {
        "overview": "/",
        "pools": "/pools",
        "pools-cpu": "/pools?kind=cpu",
        "pool-root": "/pools/root",
        "pool-parent": f"/pools/{shop}",
        "pool-leaf": f"/pools/{training}",
        "pool-week": f"/pools/{shop}?span=week",
        "pool-create": f"/pools/{shop}/do/create",
        "pool-edit": f"/pools/{training}/do/edit",
        "jobs": "/jobs",
        "jobs-pending": "/jobs?state=PENDING",
        "jobs-nothing": "/jobs?name=zzz",
        "groups-label": "/groups?by=label%3Ateam",
        "groups-pool": "/groups?by=pool",
        "hosts": "/hosts",
        "hosts-rack": "/hosts?group=label:rack",
        "host-lost": f"/hosts/{LOST}",
        "host-down": f"/hosts/{DOWN}",
        "host-gpu": "/hosts/ash-r2-gpu-01",
        "host-week": "/hosts/ash-r2-gpu-01?span=week",
        "maintenance-start": "/maintenance/start?host=ash-r1-01&host=ash-r1-02",
        "maintenance-complete": f"/maintenance/complete?host={DOWN}",
        "maintenance-forget": f"/maintenance/forget?host={LOST}",
        "hostpools": "/hostpools",
        "topology": "/topology",
        "topology-zone": "/topology?by=zone,rack&at=zone%3Dash",
        "events": "/events",
        "schedules": "/schedules",
        "search": "/search?q=re",
        "search-nothing": "/search?q=zzz",
        "submit": "/submit",
        **_of_jobs(made),
    }


def _of_jobs(made: Lively) -> dict[str, str]:
    """Return addresses of the pages of each job, of some instances, and of what can be done."""
    found = {f"job-{name[:20]}": f"/jobs/{job}" for name, job in made.jobs.items()}
    for name in ("import-orders", "catalogue", "journal", "pretrain", "sweep", "too-large", "index"):
        found[f"instance-{name}"] = f"/jobs/{made.jobs[name]}/instances/0"
    service, failed = made.jobs["catalogue"], made.jobs["import-orders"]
    found |= {
        "versions": f"/jobs/{service}/versions",
        "terminal": f"/jobs/{made.jobs['checkout']}/instances/0/terminal",
        "logs": f"/jobs/{made.jobs['pretrain']}/instances/0/logs",
        "logs-failed": f"/jobs/{failed}/instances/0/logs",
        "files": f"/jobs/{failed}/instances/0/files",
        "files-away": f"/jobs/{made.jobs['journal']}/instances/0/files",
        "batch-stop": f"/jobs/{made.jobs[LONG]}/do/stop",
    }
    for action in ("start", "stop", "restart", "update", "rollback", "pause", "resume", "abort"):
        found[f"service-{action}"] = f"/jobs/{service}/do/{action}"
    return found


def steps(made: Lively) -> dict[str, Callable[[Watched], None]]:
    """Return what leads to pages that answer a form, by a name for each. Nothing is changed by them."""
    found = places(made)

    def pressed(path: str, button: str, **fields: str) -> Callable[[Watched], None]:
        def press(opened: Watched) -> None:
            opened.open(path)
            for name, text in fields.items():
                opened.page.locator(f"main [name={name}]").last.fill(text)
            opened.page.get_by_role("button", name=button, exact=True).click()
            opened.page.wait_for_load_state("load")

        return press

    def finds(opened: Watched) -> None:
        opened.open("/hosts")
        opened.page.get_by_label("Find anything").fill("re")
        opened.page.locator("#find-lines a").first.wait_for()

    pool = f"respoolID: {{value: {made.pool('/shop/reports')}}}\n"
    plan = "Show the plan of the spec"
    job = "name: hello\ntype: BATCH\ninstanceCount: 30\nsla: {preemptible: true}\n" + pool
    task = "defaultConfig: {resource: {cpuLimit: 0.5, memLimitMb: 64}, command: {shell: true, value: echo}}\n"
    return {
        "submit-plan": pressed("/submit", plan, spec=job + task),
        "submit-wrong": pressed("/submit", plan, spec="name: [\ninstanceCount: many\n"),
        "submit-refused": pressed("/submit", plan, spec=job + "defaultConfig: {resource: {cpuLimits: 1}}\n"),
        "update-plan": pressed(found["service-update"], "Show what it will do", batch_size="2"),
        "pool-edit-plan": pressed(found["pool-edit"], "Show what it will do"),
        "find": finds,
    }


WITHOUT_DAEMONS = (
    "overview",
    "pools",
    "pool-leaf",
    "jobs",
    "hosts",
    "host-gpu",
    "hostpools",
    "job-sweep",
    "events",
)
"""Pages that are looked at while no resource manager and no host manager answers, too."""


def empty_places() -> dict[str, str]:
    """Return addresses of the pages of a cluster that nobody has used, by a name for each."""
    paths = (
        "",
        "pools",
        "pools/root",
        "jobs",
        "groups",
        "hosts",
        "hostpools",
        "topology",
        "events",
        "schedules",
        "submit",
    )
    return {path.replace("/", "-") or "overview": f"/{path}" for path in paths}
