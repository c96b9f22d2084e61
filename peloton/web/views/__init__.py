"""The pages: each module turns the daemons' answers into what its templates show."""

from __future__ import annotations

from starlette.routing import BaseRoute

from peloton.web.pages import Page
from peloton.web.views import (
    files,
    hostpools,
    hosts,
    instances,
    job_forms,
    jobs,
    login,
    logs,
    logs_follow,
    overview,
    pools,
)

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *pools.PAGES,
    *jobs.PAGES,
    *instances.PAGES,
    *logs.PAGES,
    *files.PAGES,
    *hosts.PAGES,
    *hostpools.PAGES,
)
"""Every page. A module of pages adds its own here."""
ROUTES: tuple[BaseRoute, ...] = (
    *login.ROUTES,
    *job_forms.ROUTES,
    *logs_follow.ROUTES,
    *files.ROUTES,
    *hosts.ROUTES,
    *hostpools.ROUTES,
)
"""Other requests: posts, downloads, streams."""
