"""`peloton auth`: who the caller is, and what it may do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from peloton.cli.groups import Group
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    from peloton.private.access.access_pb2 import GetCallerResponse, MethodVerdict
    from peloton.private.access.access_pb2_grpc import AccessServiceStub


@click.group(cls=Group)
def auth() -> None:
    """Who you are, and what you may do."""


@auth.command("can-i")
@click.argument("verb")
@click.argument("resource")
@click.option("--pool", metavar="PATH", default="", help="Ask for what is in this pool.")
@pass_session
def can_i(session: Session, verb: str, resource: str, pool: str) -> int:
    """Ask whether you may do VERB to RESOURCE, such as `create jobs`; nothing is done.

    `call SERVICE:METHOD` asks for a method of the interface. The exit code is 0 for yes, and 1 for no.
    """
    from peloton.cli.methods_by_verb import asked
    from peloton.private.access import access_pb2

    found = asked(verb, resource)
    request = access_pb2.CheckMethodsRequest(methods=[f"{found.service}/{found.method}"], pool=pool)
    answer = session.call(_access(found.role).CheckMethods, request)
    (verdict,) = answer.verdicts
    session.show(verdict, lambda: _verdict(verdict))
    return 0 if verdict.allowed else 1


def _access(role: str) -> AccessServiceStub:
    """Return the RPCs of a role by which it tells who may do what."""
    by_role = {
        "jobmgr": RPCS.jobmgr_access_svc,
        "resmgr": RPCS.resmgr_access_svc,
        "hostmgr": RPCS.hostmgr_access_svc,
    }
    return by_role[role]


def _verdict(verdict: MethodVerdict) -> str:
    if not verdict.allowed:
        return f"no: {verdict.reason}"
    scopes = [
        ("own jobs" if each.own else "what is") + (f" below {' and '.join(each.pools)}" if each.pools else "")
        for each in verdict.scopes
    ]
    return f"yes, for {' or '.join(scopes)}" if scopes else "yes"


@auth.command()
@pass_session
def whoami(session: Session) -> None:
    """Show whom the job manager takes you for."""
    from peloton.private.access import access_pb2

    answer = session.call(RPCS.jobmgr_access_svc.GetCaller, access_pb2.GetCallerRequest())
    session.show(answer, lambda: _caller(answer))


def _caller(answer: GetCallerResponse) -> str:
    if answer.kind == "nobody":
        return "nobody: this cluster asks nobody who they are"
    if answer.kind == "task":
        return f"task {answer.name}, for its own job"
    roles = ", ".join(answer.roles) or "no role"
    return f"{answer.kind} {answer.name or '(the default one)'}, {roles}"


@auth.command("hash")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the password from standard input, one line.")
def hash_(from_stdin: bool) -> None:
    """Hash a password, for a file of users (`auth.config_file`). It is asked for, and not shown."""
    from peloton.errors import InvalidArgument
    from peloton.identity.passwords import hashed

    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not password or not password.isascii() or not password.isprintable():
        raise InvalidArgument("password", "(hidden)", "ASCII text on one line")
    click.echo(f"'{hashed(password)}'")
