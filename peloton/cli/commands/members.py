"""`peloton job members`: where the members of a job's gang are reached, also for the members themselves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from peloton.cli import references
from peloton.cli.exit_codes import DONE
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.params import Duration
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS
from peloton.errors import InvalidArgument

if TYPE_CHECKING:
    from peloton.cli.listing import Listing
    from peloton.private.jobmgr.access.access_pb2 import GetMembersResponse, Member

NOBODY = "-"
PAUSE_SECONDS = 1.0
_ENDED = frozenset({"FAILED_PRECONDITION", "NOT_FOUND", "UNAUTHENTICATED"})
"""How the job manager answers when the job, or the run that asks, has ended."""


@click.command(cls=Command)
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the addresses to this file, by rank, a line for each member, in place of printing them.",
)
@click.option(
    "--follow", is_flag=True, help="Print or write them again when they change, until the job ends."
)
@click.option(
    "--interval", type=Duration(), default="5s", show_default=True, help="With --follow: how often to look."
)
@pass_session
def members(session: Session, job_id: str, file: Path | None, follow: bool, interval: float) -> int:
    """Show where the members of the gang of JOB are reached, by rank; `-`: it has no host.

    In a task, with --follow --file "$PELOTON_MEMBERS_FILE", it keeps the list of the gang current. The file
    is replaced as a whole, so that a reader never sees a part of it.
    """
    last: list[Member] | None = None
    while True:
        found = _read(session, job_id, patient=follow and last is not None)
        if found is None:
            return DONE
        if found != last:
            last = found
            if file is None:
                session.show([_plain(each) for each in found], _listing(found))
            else:
                write(file, found)
        if not follow:
            return DONE
        time.sleep(interval)


def _read(session: Session, job_id: str, patient: bool) -> list[Member] | None:
    """Return the members; None where the job has ended since they were read first, of one who is `patient`.

    While no job manager answers, somebody who is patient waits.
    """
    from peloton.api.v1alpha import peloton_pb2
    from peloton.cli.failures import CallFailed
    from peloton.private.jobmgr.access import access_pb2

    request = access_pb2.GetMembersRequest(job_id=peloton_pb2.JobID(value=job_id))
    while True:
        try:
            answer: GetMembersResponse = session.call(RPCS.task_access_svc.GetMembers, request)
            return list(answer.members)
        except CallFailed as error:
            if patient and error.code in _ENDED:
                return None
            if not (patient and error.transient):
                raise
            time.sleep(PAUSE_SECONDS)


def write(file: Path, found: Sequence[Member]) -> None:
    """Replace a file by the addresses, a line for each member. Raises InvalidArgument."""
    made = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        made.write_text("".join(f"{each.address or NOBODY}\n" for each in found), encoding="utf-8")
        made.replace(file)
    except OSError as error:
        raise InvalidArgument("file", str(file), f"a file that can be written: {error.strerror}") from None


def _plain(member: Member) -> dict[str, object]:
    return {"rank": member.rank, "instance": member.instance, "address": member.address}


def _listing(found: Sequence[Member]) -> Callable[[], Listing]:
    from peloton.cli.listing import listing

    rows = [(each.rank, each.instance, each.address or NOBODY) for each in found]
    return lambda: listing(("Rank", "Instance", "Address"), rows)
