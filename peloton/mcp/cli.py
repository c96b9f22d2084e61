"""`peloton mcp`: serve the cluster to programs with a language model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from peloton.cli.groups import Command
from peloton.cli.params import WholeNumber
from peloton.cli.session import Session, pass_session
from peloton.errors import PelotonError, Refused

if TYPE_CHECKING:
    from peloton.config.encryption import TlsSettings

DEFAULT_PORT = 5299
PEM = click.Path(path_type=Path, dir_okay=False)


@click.command(cls=Command)
@click.option("--http", is_flag=True, help="Serve by streamable HTTP.  [default: standard input and output]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on, with --http.")
@click.option(
    "--port",
    type=WholeNumber(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on, with --http; 0: any free one.",
)
@click.option(
    "--host-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Name by which it may be called, without the port; more than once.  [default: those of this machine "
    "itself]",
)
@click.option("--certificate", type=PEM, help="PEM file with the certificate to serve by, with --http.")
@click.option("--key", type=PEM, help="PEM file with its key.")
@click.option("--ca", type=PEM, help="PEM file with the authorities behind it.")
@pass_session
def mcp(
    session: Session,
    http: bool,
    host: str,
    port: int,
    names: tuple[str, ...],
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
) -> None:
    """Serve the cluster by the Model Context Protocol: tools to read, and to act by plans that were shown.

    By standard input and output, it acts as you. With --http, each request says by its header Authorization
    (Basic or Bearer) whose it is, and what it asks is done with that user's rights. See docs/mcp.md.
    """
    try:
        from peloton.mcp.server import Users, make_server
        from peloton.mcp.serving import serve_http, serve_stdio
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise PelotonError("the MCP server needs the package `mcp`: pip install 'peloton[mcp]'") from None
    tls = _checked(http, host, names, (certificate, key, ca))
    session.quiet = True
    users = Users(session, by_header=http)
    try:
        if http:
            asyncio.run(serve_http(make_server(users), host, port, names, tls))
        else:
            _ = session.client  # what is wrong with the flags is said at once
            asyncio.run(serve_stdio(make_server(users)))
    finally:
        users.close()


def _checked(
    http: bool, host: str, names: tuple[str, ...], files: tuple[Path | None, Path | None, Path | None]
) -> TlsSettings:
    """Return the settings of TLS. Raises UsageError, and Refused for what would not be safe."""
    from peloton.config.encryption import TlsSettings
    from peloton.web.security import LOOPBACK

    certificate, key, ca = files
    if not http:
        if any((*files, *names)):
            raise click.UsageError("--certificate, --key, --ca and --host-name are for --http")
        return TlsSettings()
    if bool(certificate) != bool(key):
        raise click.UsageError("--certificate and --key belong together")
    if host not in LOOPBACK and not host.startswith("127."):
        if certificate is None:
            raise Refused(
                f"--host {host}: passwords and tokens would cross the network in plain: give --certificate "
                "and --key, or listen on 127.0.0.1 behind a proxy"
            )
        if not names:
            raise Refused(
                f"--host {host}: give --host-name, the name by which it is called, so that no other site can "
                "make a browser call it under a name of its own"
            )
    return TlsSettings(ca_file=ca or certificate, certificate_file=certificate, key_file=key)
