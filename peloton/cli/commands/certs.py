"""`peloton certs`: a small authority, for tests and small clusters."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from peloton.cli.groups import Group


@click.group(cls=Group)
def certs() -> None:
    """Make a small authority and its certificates, for tests and small clusters."""


@certs.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", default="Peloton", show_default=True, help="Name of the authority.")
def ca(folder: Path, name: str) -> None:
    """Make an authority in FOLDER: ca.crt, which all trust, and ca.key, to be kept away from them."""
    from peloton.identity.certs import make_authority

    made = make_authority(folder, name, datetime.datetime.now(datetime.UTC))
    click.echo(f"{made.certificate}\n{made.key}")


@certs.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("name")
@click.option("--host", "hosts", multiple=True, help="Name or address by which it is called; also repeated.")
@click.option(
    "--days",
    type=click.IntRange(1, 825),
    default=365,
    show_default=True,
    help="How long it is valid.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder to write to.  [default: FOLDER]")
def issue(folder: Path, name: str, hosts: tuple[str, ...], days: int, out: Path | None) -> None:
    """Issue a certificate of the authority in FOLDER: NAME.crt and NAME.key, for servers and clients.

    Without --host it is for this machine alone.
    """
    from peloton.identity.certs import LOOPBACK
    from peloton.identity.certs import issue as issued

    made = issued(folder, name, hosts or LOOPBACK, days, datetime.datetime.now(datetime.UTC), out)
    click.echo(f"{made.certificate}\n{made.key}")
