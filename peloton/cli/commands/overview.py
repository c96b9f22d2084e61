"""`peloton status` and `peloton top`: the cluster on one screen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from peloton.cli import references
from peloton.cli.exit_codes import DONE, UNREACHABLE
from peloton.cli.groups import Command
from peloton.cli.params import INDEX, Duration
from peloton.cli.session import Session, pass_session

if TYPE_CHECKING:
    from peloton.cli.listing import Listing

VIEWS = ("pools", "jobs", "hosts", "tasks")


@click.command(cls=Command)
@pass_session
def status(session: Session) -> int:
    """Show the cluster on one screen: its daemons, hosts, jobs and pools, and what is wrong now.

    A daemon that does not answer is shown as such, and the exit code is then 3.
    """
    from peloton.cli.colours import has_colours
    from peloton.cli.overview import read
    from peloton.cli.overview_text import overview_plain, overview_text
    from peloton.cli.text import terminal_columns
    from peloton.cli.waiting import waiting_for_all

    with waiting_for_all("the daemons", quiet=session.quiet or session.write is not None):
        found = read(session)
    session.show(
        overview_plain(found),
        lambda: overview_text(found, colours=has_colours(sys.stdout), terminal=terminal_columns()),
    )
    return UNREACHABLE if any(daemon.failure for daemon in found.daemons) else DONE


@click.command(cls=Command)
@click.argument("view", type=click.Choice(VIEWS), default="pools")
@click.option(
    "--job",
    "job_id",
    metavar="JOB",
    type=references.JOB,
    default=None,
    help="Job whose tasks are shown, for tasks.",
)
@click.option("--interval", type=Duration(), default="2s", show_default=True, help="How often it is read.")
@click.option(
    "-n",
    "--times",
    type=INDEX,
    default=0,
    help="Number of times to draw before the end.  [default: when q is pressed]",
)
@pass_session
def top(session: Session, view: str, job_id: str | None, interval: float, times: int) -> int:
    """Show pools, jobs, hosts, or what the tasks of a job use, live, the busiest first.

    On a terminal, p, j, h and, with --job, t change what is shown and q ends it. Elsewhere it is printed
    again and again.
    """
    from peloton.cli.screen import GAP, collected, opened, repeat

    if view == "tasks" and not job_id:
        raise click.UsageError("top tasks: --job JOB says whose tasks")
    shown = [view]
    readers = {**_READERS, **({"tasks": _tasks(job_id)} if job_id else {})}
    by_key: Mapping[str, str] = {name[0]: name for name in readers}

    def read() -> str:
        def show() -> None:
            found = readers[shown[0]](session)
            rows = [dict(zip(found.heads, row, strict=True)) for row in found.rows]
            session.show(rows, lambda: found)

        return collected(session, show)

    with opened() as screen:
        title = GAP.join(["peloton top", *(f"{key}: {name}" for key, name in by_key.items())])
        return repeat(
            screen, read, title, interval, times=times, on_key=lambda key: _set(shown, by_key.get(key))
        )


def _set(shown: list[str], view: str | None) -> None:
    shown[0] = view or shown[0]


def _pools(session: Session) -> Listing:
    from peloton.cli.losses import loss_cells, read_losses
    from peloton.cli.overview import read_pools
    from peloton.cli.pool_amounts import amounts_listing, figures_or_none
    from peloton.cli.used import read_used, used_cells

    pools = read_pools(session)
    further = {
        "Used": used_cells(pools, read_used(session)),
        "Work Lost": loss_cells(read_losses(session, pools)),
    }
    return amounts_listing(pools, figures_or_none(session), further)


def _jobs(session: Session) -> Listing:
    from peloton.cli.overview import read_jobs
    from peloton.cli.overview_text import job_listing
    from peloton.cli.used import read_used, with_used_jobs

    return with_used_jobs(job_listing(read_jobs(session)), read_used(session))


def _hosts(session: Session) -> Listing:
    from peloton.cli.overview import read_hosts
    from peloton.cli.overview_text import host_listing
    from peloton.cli.used import read_used_hosts, with_used_hosts

    return with_used_hosts(host_listing(list(read_hosts(session))), read_used_hosts(session))


def _tasks(job_id: str) -> Callable[[Session], Listing]:
    from peloton.cli.usage import CpuRates, read_usage, usage_listing

    cpu = CpuRates()

    def read(session: Session) -> Listing:
        usages = read_usage(session, job_id).usages
        rates = cpu.take(usages)
        return usage_listing(sorted(usages, key=lambda each: (-rates[each.run], each.instance)), rates)

    return read


_READERS: Mapping[str, Callable[[Session], Listing]] = {"pools": _pools, "jobs": _jobs, "hosts": _hosts}
