"""`peloton task exec`: a command beside a task, with the terminal of the user where that is wanted."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from peloton.cli.failures import check
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import Refused

if TYPE_CHECKING:
    from peloton.client.agent_session import AgentSession
    from peloton.client.sandbox import Agent

_PIECE_BYTES = 32 * 1024


def find_container(session: Session, job_id: str, instance: int) -> tuple[Agent, str]:
    """Return the agent and the container of the current run of an instance.

    Raises Refused where it is not RUNNING, NotFound where its agent does not know it.
    """
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.task import task_pb2
    from peloton.client.agent_session import container_of

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
    agent = session.agent(answer)
    return agent, container_of(answer.paths)


def execute(
    agent: Agent, container: str, words: Sequence[str], *, stdin: bool, terminal: bool, out: IO[bytes]
) -> int:
    """Run a command and return its exit code. Raises what `AgentSession.run` raises."""
    from peloton.client.agent_session import AgentSession, command_info

    size = shutil.get_terminal_size()
    session = AgentSession(agent, container, (size.lines, size.columns) if terminal else None)

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
