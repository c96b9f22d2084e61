"""Edit the config of a resource pool in an editor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.failures import CallFailed
from peloton.cli.session import Session, pool_id
from peloton.client.rpcs import RPCS
from peloton.errors import InvalidArgument, Refused

if TYPE_CHECKING:
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolConfig, ResourcePoolInfo


def edit_pool(session: Session, pool: ResourcePoolInfo, force: bool) -> int:
    """Have the user edit a pool's config until it is taken, or left as it is; return the exit code."""
    path, text, error = pool.path.value, text_of(pool.config), ""
    before = text
    while True:
        edited = click.edit(_with_comments(path, text, error), extension=".yaml")
        if edited is not None:
            edited = _without_comments(edited)
        if edited is None or edited.strip() in ("", before.strip()) or (error and edited == text):
            click.echo(f"Resource pool {path} is as it was", err=True)
            return REFUSED if error else DONE
        text = edited
        try:
            response = _update(session, pool, text, force)
        except (Refused, InvalidArgument, CallFailed) as refusal:
            if not sys.stdin.isatty() or (isinstance(refusal, CallFailed) and refusal.transient):
                raise  # an editor that is a program would give the same again
            error = str(refusal)
            continue
        session.show(response, lambda: f"Resource pool {path} updated", path)
        return DONE


def place(session: Session, path: str, spec: ResourcePoolConfig) -> None:
    """Take name and parent of a pool from its path. Raises InvalidArgument for a spec with others."""
    above, _, name = path.rstrip("/").rpartition("/")
    if not path.startswith("/") or not name:
        raise InvalidArgument("path", path, "the path of a pool below the root, such as /a/b")
    if spec.name not in ("", name):
        raise InvalidArgument(
            "name", spec.name, f"the last part of the path, {name!r}: leave it out of the spec"
        )
    parent = pool_id(session, above or "/")
    if spec.parent.value not in ("", parent):
        raise InvalidArgument(
            "parent", spec.parent.value, f"the pool {above or '/'}: leave it out of the spec"
        )
    spec.name, spec.parent.value = name, parent


def _update(session: Session, pool: ResourcePoolInfo, text: str, force: bool) -> object:
    """Send the edited config. Raises SpecError as InvalidArgument, Refused and CallFailed."""
    from peloton.api.v0.respool import respool_pb2
    from peloton.client.spec import parse_spec
    from peloton.client.yamltree import SpecError

    try:
        config = parse_spec(respool_pb2.ResourcePoolConfig, text, "line")
    except SpecError as error:
        raise Refused(str(error)) from error
    config.name = pool.config.name
    config.parent.CopyFrom(pool.config.parent)
    request = respool_pb2.UpdateRequest(id=pool.id, config=config, Force=force)
    return session.call(RPCS.respool_svc.UpdateResourcePool, request)


def text_of(config: ResourcePoolConfig) -> str:
    """Return the config of a pool as YAML, without what its path and the server give."""
    from peloton.cli.output import yaml_text

    shown = type(config)()  # without the fields that the path and the server give
    shown.CopyFrom(config)
    shown.ClearField("changeLog")
    shown.ClearField("parent")
    shown.ClearField("name")
    return yaml_text(shown) + "\n"


def _with_comments(path: str, text: str, error: str) -> str:
    said = f"# It was refused: {error}\n" if error else ""
    return f"# Resource pool {path}. Lines with # are left out; an empty file changes nothing.\n{said}{text}"


def _without_comments(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
