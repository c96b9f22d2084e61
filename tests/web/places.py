"""An address of each page, in a world that is filled."""

from __future__ import annotations

from urllib.parse import quote

from peloton.web.views import PAGES

from .world import FIRST_HOST, HOSTILE_HOST, SPARE, World


def places(world: World) -> dict[str, str]:
    """Return addresses by a name for each."""
    batch, failed, waiting, service = world.batch, world.failed, world.waiting, world.service.id.value
    run = f"/jobs/{batch}/instances/0"
    return {
        "overview": "/",
        "overview-day": "/?span=day",
        "pools": "/pools",
        "pool": f"/pools/{world.harness.pool}",
        "pool-root": "/pools/root",
        "jobs": "/jobs",
        "jobs-found": "/jobs?name=f*&state=FAILED&created=1h",
        "job": f"/jobs/{batch}",
        "job-failed": f"/jobs/{failed}?state=FAILED&sort=-state",
        "job-waiting": f"/jobs/{waiting}",
        "job-service": f"/jobs/{service}",
        "start": f"/jobs/{waiting}/start",
        "versions": f"/jobs/{service}/versions",
        "stop": f"/jobs/{batch}/do/stop",
        "restart": f"/jobs/{service}/do/restart",
        "update": f"/jobs/{service}/do/update",
        "instance": run,
        "instance-failed": f"/jobs/{failed}/instances/0",
        "instance-waiting": f"/jobs/{waiting}/instances/0",
        "terminal": f"{run}/terminal",
        "logs": f"{run}/logs",
        "logs-found": f"/jobs/{failed}/instances/0/logs?find=script",
        "files": f"{run}/files",
        "hosts": "/hosts",
        "hosts-by-label": "/hosts?group=label:zone&kind=memory&sort=-memory",
        "host": f"/hosts/{FIRST_HOST}",
        "host-hostile": f"/hosts/{quote(HOSTILE_HOST)}",
        "maintenance-start": f"/maintenance/start?host={quote(FIRST_HOST)}&host={quote(HOSTILE_HOST)}",
        "maintenance-complete": f"/maintenance/complete?host={SPARE}",
        "hostpools": "/hostpools",
        "hostpool-change": f"/hostpools/change?host={SPARE}&destination=default",
        "hostpool-move": "/hostpools/move?source=shared&destination=default&count=1",
        "hostpool-delete": "/hostpools/delete?name=batch_reserved",
        "submit": "/submit",
        "events": "/events",
        "groups": "/groups?by=owner",
        "schedules": "/schedules",
        "pool-create": "/pools/root/do/create",
        "pool-edit": f"/pools/{world.harness.pool}/do/edit",
        "topology": f"/topology?by=zone,rack&at={quote('zone=<i>0')}",
        "search": "/search?q=host",
        "login": "/login?next=/hosts",
        "api": "/api",
    }


def paths() -> set[str]:
    """Return the paths of all pages that there are, as patterns."""
    return {page.path for page in PAGES}
