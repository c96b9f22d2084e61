"""`peloton task exec`: a command beside a task, with the terminal of the user where that is wanted."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from peloton.cli.failures import CallFailed, check
from peloton.cli.output import say
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError, Refused

if TYPE_CHECKING:
    from peloton.client.agent_session import AgentSession
    from peloton.client.sandbox import Agent

_PIECE_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs: a container of an agent; `session` is the id by which jobmgr knows of it."""

    agent: Agent
    container: str
    session: str = ""


@contextmanager
def place_of(session: Session, job_id: str, instance: int) -> Iterator[Place]:
    """Yield where commands run beside an instance; tell the job manager when the body is over.

    Raises Refused where it is not RUNNING, NotFound where its agent does not know it.
    """
    from peloton.api.v1alpha import peloton_pb2
    from peloton.client.agent_calls import container_of
    from peloton.private.jobmgr.exec import exec_pb2

    job = peloton_pb2.JobID(value=job_id)
    request = exec_pb2.StartSessionRequest(job_id=job, instance=instance)
    try:
        told = session.call(RPCS.exec_svc.StartSession, request)
    except CallFailed as failure:
        if failure.code != "UNIMPLEMENTED":
            raise
        yield _found(session, job_id, instance)  # the job manager is of an earlier version
        return
    end = exec_pb2.EndSessionRequest(job_id=job, instance=instance, session=told.session)
    try:
        yield Place(session.agent(told), container_of(told.paths), told.session)
    finally:
        try:
            session.call(RPCS.exec_svc.EndSession, end)
        except PelotonError as error:
            say(f"the job manager was not told that the command has ended: {error}")


def _found(session: Session, job_id: str, instance: int) -> Place:
    """Return where commands run beside an instance, by calls that earlier job managers serve too."""
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.task import task_pb2
    from peloton.client.agent_calls import container_of

    job = peloton_pb2.JobID(value=job_id)
    found = session.call(RPCS.task_svc.Get, task_pb2.GetRequest(jobId=job, instanceId=instance))
    state = task_pb2.TaskState.Name(found.result.runtime.state)
    if state != "RUNNING":
        raise Refused(f"instance {instance} is {state}: a command runs beside a task that is RUNNING")
    request = task_pb2.BrowseSandboxRequest(jobId=job, instanceId=instance)
    answer = session.call_unchecked(RPCS.task_svc.BrowseSandbox, request)
    refusal = answer.error.notRunning.message or answer.error.failure.message
    if refusal:
        raise Refused(refusal)
    check(answer)
    return Place(session.agent(answer), container_of(answer.paths))


def execute(place: Place, words: Sequence[str], *, stdin: bool, terminal: bool, out: IO[bytes]) -> int:
    """Run a command and return its exit code. Raises what `AgentSession.run` raises."""
    from peloton.client.agent_calls import command_info
    from peloton.client.agent_session import AgentSession

    size = shutil.get_terminal_size()
    name = place.session or str(uuid.uuid4())
    session = AgentSession(
        place.agent, place.container, (size.lines, size.columns) if terminal else None, name
    )

    def write(stream: str, data: bytes) -> None:
        target = sys.stderr.buffer if stream == "STDERR" else out
        target.write(data)
        target.flush()

    descriptor = _input() if stdin else None

    def read() -> bytes:
        return b"" if descriptor is None else os.read(descriptor, _PIECE_BYTES)

    with _raw(session, terminal and stdin):
        return session.run(command_info(words), write, read if stdin else None)


def _input() -> int | None:
    """Return the descriptor of standard input; None where there is none, so that it ends at once."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):
        return None


@contextmanager
def _raw(session: AgentSession, terminal: bool) -> Iterator[None]:
    """Pass every key on, and changes of the window's size, while the body runs."""
    if not (terminal and sys.stdin.isatty()):
        yield
        return
    import termios
    import tty

    def resized(number: int, frame: object) -> None:
        size = shutil.get_terminal_size()
        threading.Thread(target=session.resize, args=(size.lines, size.columns), daemon=True).start()

    saved = termios.tcgetattr(sys.stdin)
    before = signal.signal(signal.SIGWINCH, resized)
    tty.setraw(sys.stdin, termios.TCSADRAIN)  # what was typed meanwhile is not lost
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
        signal.signal(signal.SIGWINCH, before)
