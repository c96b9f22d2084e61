"""`peloton respool`: the tree of resource pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from peloton.cli.groups import Group
from peloton.cli.live_names import files, live_pools
from peloton.cli.session import Session, pass_session, pool_id
from peloton.client.rpcs import RPCS
from peloton.errors import NotFound

if TYPE_CHECKING:
    from peloton.api.v0.respool.respool_pb2 import QueryResponse, ResourcePoolInfo
    from peloton.client.spec import Parsed


@click.group(cls=Group)
def respool() -> None:
    """Resource pools: how teams share the cluster."""


PATH = click.argument("path", shell_complete=live_pools)
CONFIG = click.argument("config", shell_complete=files)


@respool.command()
@PATH
@CONFIG
@click.option(
    "-f",
    "--force",
    is_flag=True,
    help="Without effect, for old scripts: a new pool is always checked.",
)
@pass_session
def create(session: Session, path: str, config: str, force: bool) -> None:
    """Create the pool PATH, such as /a/b, from the spec CONFIG (YAML, `-` for standard input)."""
    from peloton.api.v0.respool import respool_pb2
    from peloton.cli.spec_check import located

    parsed = _read(session, path, config)
    with located(parsed):
        request = respool_pb2.CreateRequest(config=parsed.message)
        response = session.call(RPCS.respool_svc.CreateResourcePool, request)
    session.show(response, lambda: f"Resource pool {path} created: {response.result.value}")


@respool.command()
@PATH
@CONFIG
@click.option("-f", "--force", is_flag=True, help="Skip the checks against parent, siblings and children.")
@pass_session
def update(session: Session, path: str, config: str, force: bool) -> None:
    """Replace the config of the pool PATH by the spec CONFIG."""
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.respool import respool_pb2
    from peloton.cli.spec_check import located

    parsed = _read(session, path, config)
    pool = peloton_pb2.ResourcePoolID(value=pool_id(session, path))
    request = respool_pb2.UpdateRequest(id=pool, config=parsed.message, Force=force)
    with located(parsed):
        response = session.call(RPCS.respool_svc.UpdateResourcePool, request)
    session.show(response, lambda: f"Resource pool {path} updated")


@respool.command("list")
@pass_session
def list_(session: Session) -> None:
    """List all pools, parents before their children: what their tasks hold, reservations and limits.

    `-o wide` also says what work their jobs have lost since checkpoints.
    """
    from peloton.cli.losses import read_losses
    from peloton.cli.pool_rows import pool_table

    pools = _pools(session)
    rows = pools.resourcePools
    lost = read_losses(session, rows) if session.output == "wide" else {}
    session.show(pools, lambda: pool_table(rows, lost))


@respool.command()
@PATH
@pass_session
def get(session: Session, path: str) -> None:
    """Show the pool PATH: its config, what its tasks hold, and the seconds of work that its jobs have lost.

    lostSeconds are those since the last checkpoints of runs that ended, with the pools below; they are
    left out while the job manager does not answer.
    """
    from peloton.cli.losses import read_losses
    from peloton.present.plain import as_json, plain

    pools = _pools(session)
    found = _found_in(pools, path)
    lost = read_losses(session, pools.resourcePools)
    content = as_json(found) if session.output == "json" else plain(found)
    if lost is not None:
        content["lostSeconds"] = round(lost[found.path.value], 3)
    session.show_object(content, path)


@respool.command()
@click.argument("path", default="/", shell_complete=live_pools)
@pass_session
def tree(session: Session, path: str) -> None:
    """Show the pools below PATH, or all, as a tree, with what they hold of their limits."""
    from peloton.cli.pool_rows import pool_tree
    from peloton.cli.text import terminal_columns

    pools = _pools(session)
    if path != "/":
        _found_in(pools, path)
        below = path.rstrip("/")
        kept = [each for each in pools.resourcePools if f"{each.path.value}/".startswith(f"{below}/")]
        del pools.resourcePools[:]
        pools.resourcePools.extend(kept)
    session.show(pools, lambda: pool_tree(pools.resourcePools, terminal_columns()), _paths(pools))


@respool.command()
@PATH
@click.option("-f", "--force", is_flag=True, help="Skip the checks against parent, siblings and children.")
@pass_session
def edit(session: Session, path: str, force: bool) -> int:
    """Edit the config of the pool PATH in $VISUAL or $EDITOR, and update the pool with it.

    What is refused is edited again. A text that is not changed, or empty, changes nothing.
    """
    from peloton.cli.pool_edit import edit_pool

    return edit_pool(session, _found(session, path), force)


@respool.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    help="Print YAML or JSON, as -o does.  [default: yaml]",
)
@pass_session
def dump(session: Session, form: str | None) -> None:
    """Show all pools, parents before their children, with config and usage."""
    from peloton.cli.losses import read_losses
    from peloton.cli.output import yaml_text
    from peloton.cli.pool_rows import pool_table
    from peloton.present.plain import as_json, plain

    session.json = session.json or form == "json"
    pools = _pools(session).resourcePools
    content = [as_json(pool) if session.json else plain(pool) for pool in pools]
    tabular = form is None and session.output in ("table", "wide", "name", "csv")
    lost = read_losses(session, pools) if session.output == "wide" else {}
    session.show(content, lambda: pool_table(pools, lost) if tabular else yaml_text(content))


@respool.command()
@PATH
@pass_session
def delete(session: Session, path: str) -> None:
    """Delete the pool PATH: a leaf without allocation and demand."""
    from peloton.api.v0.respool import respool_pb2

    request = respool_pb2.DeleteRequest(path=respool_pb2.ResourcePoolPath(value=path))
    response = session.call(RPCS.respool_svc.DeleteResourcePool, request)
    session.show(response, lambda: f"Resource pool {path} deleted")


def _pools(session: Session) -> QueryResponse:
    """Return all pools, parents before their children."""
    from peloton.api.v0.respool import respool_pb2

    answer = session.call(RPCS.respool_svc.Query, respool_pb2.QueryRequest())
    answer.resourcePools.sort(key=lambda pool: pool.path.value)
    return answer


def _found(session: Session, path: str) -> ResourcePoolInfo:
    """Return the pool at a path. Raises NotFound."""
    return _found_in(_pools(session), path)


def _found_in(pools: QueryResponse, path: str) -> ResourcePoolInfo:
    from peloton.client.matching import suggestion

    wanted = path.rstrip("/") or "/"
    found = next((each for each in pools.resourcePools if each.path.value == wanted), None)
    if found is None:
        known = [each.path.value for each in pools.resourcePools]
        hint = suggestion(path, known) or "; `peloton respool list` lists them"
        raise NotFound(f"there is no resource pool {path!r}{hint}")
    return found


def _paths(pools: QueryResponse) -> str:
    return "\n".join(each.path.value for each in pools.resourcePools)


def _read(session: Session, path: str, config: str) -> Parsed[Any]:
    """Read a spec; take name and parent from the path. Raises InvalidArgument where the spec differs."""
    from peloton.cli.pool_edit import place
    from peloton.cli.spec_check import read

    parsed = read("respool", config)
    place(session, path, parsed.message)
    return parsed
