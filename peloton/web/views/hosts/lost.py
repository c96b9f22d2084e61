"""Lost hosts are forgotten."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from peloton.calls.web import FORGET_HOSTS
from peloton.errors import NotFound
from peloton.private.hostmgr.registry import registry_pb2
from peloton.web.permissions import host_change
from peloton.web.requests import calls, done, fields, render
from peloton.web.views.hosts.pages import names_of
from peloton.web.views.hosts.reads import all_hosts
from peloton.web.views.hosts.rows import LOST


async def forget_hosts(request: Request) -> Response:
    """Show which hosts would be forgotten; when posted, forget them."""
    if request.method == "POST":
        names = names_of(fields(request, "host"))
        await calls(request).call(FORGET_HOSTS, registry_pb2.ForgetHostsRequest(hostnames=names))
        return done(request, "/hosts")
    names = names_of(request.query_params.getlist("host"))
    rows, unknown = (await all_hosts(calls(request))).split(names)
    if not rows:
        raise NotFound("no host of these names is known: " + ", ".join(unknown))
    variables = {
        "lost": [row for row in rows if row.state == LOST],
        "others": [row for row in rows if row.state != LOST],
        "unknown": unknown,
        "back": rows[0].url,
        **await host_change(calls(request), "forget"),
    }
    return render(request, "hosts_forget.html", variables)


ROUTES = (Route("/maintenance/forget", forget_hosts, methods=["GET", "POST"]),)
