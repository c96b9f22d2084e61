"""The pages, in a folder each: they turn the daemons' answers into what their templates show."""

from __future__ import annotations

from starlette.routing import BaseRoute

from peloton.web.pages import Page
from peloton.web.views import login
from peloton.web.views.events import pages as events
from peloton.web.views.finding import pages as finding
from peloton.web.views.hostpools import pages as hostpools
from peloton.web.views.hosts import lost
from peloton.web.views.hosts import pages as hosts
from peloton.web.views.instances import pages as instances
from peloton.web.views.jobs import create, forms, groups, schedules
from peloton.web.views.jobs import pages as jobs
from peloton.web.views.overview import pages as overview
from peloton.web.views.pools import forms as pool_forms
from peloton.web.views.pools import pages as pools
from peloton.web.views.sandbox import files, follow, logs
from peloton.web.views.terminal import pages as terminal
from peloton.web.views.topology import pages as topology

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *events.PAGES,
    *pools.PAGES,
    *jobs.PAGES,
    *forms.PAGES,
    *groups.PAGES,
    *schedules.PAGES,
    *instances.PAGES,
    *logs.PAGES,
    *files.PAGES,
    *hosts.PAGES,
    *hostpools.PAGES,
    *finding.PAGES,
    *topology.PAGES,
)
"""Every page. A folder of pages adds its own here."""
ROUTES: tuple[BaseRoute, ...] = (
    *login.ROUTES,
    *forms.ROUTES,
    *create.ROUTES,
    *pool_forms.ROUTES,
    *follow.ROUTES,
    *files.ROUTES,
    *terminal.ROUTES,
    *hosts.ROUTES,
    *lost.ROUTES,
    *hostpools.ROUTES,
    *finding.ROUTES,
)
"""Other requests: posts, downloads, streams."""
