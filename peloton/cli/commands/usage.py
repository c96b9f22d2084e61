"""`peloton usage`: what jobs have held and used, by pool, owner or label."""

from __future__ import annotations

import time

import click

from peloton.cli.groups import Command
from peloton.cli.params import Moment
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS

KEYS = ("pool", "owner", "label")
PERIODS = {"hour": 3600, "day": 86400}


@click.command(cls=Command)
@click.option(
    "--by",
    "keys",
    type=click.Choice(KEYS),
    multiple=True,
    help="Tell accounts apart by this, also more than once. label: by the labels that the job manager's "
    "setting usage.labels names.  [default: pool]",
)
@click.option(
    "--since",
    type=Moment(),
    default="24h",
    show_default=True,
    help="Begin of the time, such as 7d ago or 2026-01-31.",
)
@click.option("--until", type=Moment(), default=None, help="End of the time.  [default: now]")
@click.option(
    "--every", type=click.Choice(list(PERIODS)), default=None, help="Tell hours or days apart, too."
)
@click.option("--pool", metavar="PATH", default="", help="Only this pool, with the pools below.")
@pass_session
def usage(
    session: Session, keys: tuple[str, ...], since: float, until: float | None, every: str | None, pool: str
) -> None:
    """Show what jobs have held and used: what was asked for times time, and what of it their agents measured.

    Lost is what runs that were preempted had held since their last checkpoints. Times are whole hours in UTC,
    and whole days where they are more than 34 days ago; days are kept for 400 days. With `-o csv`, `-o json`
    and `-o yaml` amounts are in core, GPU and MB seconds, and exact.
    """
    from peloton.cli.accounts import account_listing, exact_listing
    from peloton.private.jobmgr.usage import usage_pb2

    by = tuple(dict.fromkeys(keys)) or ("pool",)
    wanted = {
        "pool": usage_pb2.ListAccountsRequest.POOL,
        "owner": usage_pb2.ListAccountsRequest.OWNER,
        "label": usage_pb2.ListAccountsRequest.LABELS,
    }
    end = time.time() if until is None else until
    if since >= end:
        raise click.UsageError("--since is not before --until")
    request = usage_pb2.ListAccountsRequest(
        since=max(int(since), 1),
        until=int(until) if until is not None else 0,
        by=[wanted[key] for key in by],
        seconds=PERIODS[every] if every else 0,
        pool=pool,
    )
    answer = session.call(RPCS.usage_svc.ListAccounts, request)
    make = exact_listing if session.output == "csv" else account_listing
    session.show(answer, lambda: make(answer.accounts, by, every is not None))
    if not answer.accounts and session.output not in ("json", "yaml"):
        click.echo("No job has held anything in that time.", err=True)
