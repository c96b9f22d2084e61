"""`peloton task logs`: find the sandbox of a run by BrowseSandbox and print one of its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from peloton.cli.failures import CallFailed, check
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.client.sandbox import Sandbox, SandboxFile
from peloton.errors import NotFound, Refused, Unavailable
from peloton.model.states import TaskState

if TYPE_CHECKING:
    from peloton.api.v0.task.task_pb2 import RuntimeInfo

T = TypeVar("T")
INTERVAL = 0.5
"""Seconds between two reads of a file that is followed."""
RETRY_SECONDS = 120.0
"""How long calls to a daemon or an agent that does not answer are repeated."""


@dataclass(frozen=True, slots=True)
class JobmgrFile:
    """A file of a run, read through the job manager."""

    session: Session
    job_id: str
    instance: int
    run: str
    path: str

    def read(self, offset: int) -> bytes:
        """Return bytes from `offset` on; empty at the end of the file. Raises CallFailed."""
        from peloton.private.jobmgr.access import access_pb2

        request = access_pb2.GetSandboxFileRequest(
            instance=self.instance, run=self.run, path=self.path, offset=offset
        )
        request.job_id.value = self.job_id
        return self.session.call(RPCS.task_access_svc.GetSandboxFile, request).data

    def download(self) -> Iterator[bytes]:
        """Yield the file in pieces. Raises CallFailed."""
        offset = 0
        while piece := self.read(offset):
            yield piece
            offset += len(piece)


@dataclass(slots=True)
class Logs:
    """One file of one run of an instance; `run` is a Mesos task id or empty for the current run."""

    session: Session
    job_id: str
    instance: int
    run: str
    filename: str
    write: Callable[[bytes], object]
    note: Callable[[str], object]
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    patience: float = RETRY_SECONDS

    def copy(self) -> None:
        """Write the file as it is now. Raises Refused without a sandbox, NotFound without the file."""
        for piece in self.opened().download():
            self.write(piece)

    def follow(self) -> None:
        """Write the file as it grows until its run has ended; wait for a run that has not begun."""
        file = self._file(wait=True)
        offset = 0
        while True:
            # Checked before the read: a run that has ended has written all of its output.
            ended = self._with_retries(self._ended)
            while piece := self._read(file, offset, ended):
                self.write(piece)
                offset += len(piece)
            if ended:
                return
            self.sleep(INTERVAL)

    def _read(self, file: SandboxFile | JobmgrFile, offset: int, ended: bool) -> bytes:
        # Not repeated for a run that has ended: its agent may be gone too.
        piece: bytes = file.read(offset) if ended else self._with_retries(lambda: file.read(offset))
        return piece

    def opened(self) -> SandboxFile | JobmgrFile:
        """Return the file as it is now. Raises as `copy`."""
        return self._file(wait=False)

    def _file(self, *, wait: bool) -> SandboxFile | JobmgrFile:
        last_note = ""
        while True:
            # Checked before the sandbox: a run that has ended has made all of its files.
            ended = wait and self._with_retries(self._ended)
            sandbox = self._sandbox()
            if not isinstance(sandbox, (Refused, NotFound)):
                return sandbox
            if not wait or ended:
                raise sandbox
            reason = self._waiting_reason() or str(sandbox)
            if reason != last_note:
                self.note(f"waiting: {reason}")
                last_note = reason
            self.sleep(INTERVAL)

    def _sandbox(self) -> SandboxFile | JobmgrFile | Refused | NotFound:
        """Return the file, or the reason why there is none (yet)."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.task import task_pb2

        request = task_pb2.BrowseSandboxRequest(
            jobId=peloton_pb2.JobID(value=self.job_id), instanceId=self.instance, taskId=self.run
        )
        response = self._with_retries(
            lambda: self.session.call_unchecked(RPCS.task_svc.BrowseSandbox, request)
        )
        if response.error.HasField("notRunning") or response.error.HasField("failure"):
            refusal = response.error.notRunning.message or response.error.failure.message
            return Refused(refusal or f"instance {self.instance} has no sandbox: it was not launched")
        check(response)
        if self.session.client.of_task:
            return self._by_jobmgr()
        agent = self.session.agent(response)
        sandbox = Sandbox(agent, tuple(response.paths))
        try:
            file = self._with_retries(lambda: sandbox.file(self.filename))
        except NotFound as missing:
            return missing
        return file

    def _by_jobmgr(self) -> JobmgrFile | NotFound:
        """Return the file as the job manager reads it: a task has no credentials for agents."""
        file = JobmgrFile(self.session, self.job_id, self.instance, self.run, self.filename)
        try:
            self._with_retries(lambda: file.read(0))
        except CallFailed as failure:
            if failure.code != "NOT_FOUND":
                raise
            return NotFound(str(failure))
        return file

    def _ended(self) -> bool:
        """Return whether the run is over: in a terminal state, or no longer the current one."""
        runtime = self._runtime()
        current = runtime.mesosTaskId.value
        if not self.run:
            self.run = current
        replaced = bool(current and self.run and current != self.run)
        return replaced or TaskState(runtime.state).terminal

    def _waiting_reason(self) -> str:
        from peloton.api.v0.task import task_pb2

        runtime = self._with_retries(self._runtime)
        return f"{task_pb2.TaskState.Name(runtime.state)} {runtime.reason or runtime.message}".strip()

    def _runtime(self) -> RuntimeInfo:
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.task import task_pb2

        request = task_pb2.GetRequest(jobId=peloton_pb2.JobID(value=self.job_id), instanceId=self.instance)
        return self.session.call(RPCS.task_svc.Get, request).result.runtime

    def _with_retries(self, call: Callable[[], T]) -> T:
        """Make a call, repeating it while the other side does not answer (it may be restarting)."""
        until = self.clock() + self.patience
        while True:
            try:
                return call()
            except (CallFailed, Unavailable) as failure:
                if (isinstance(failure, CallFailed) and not failure.transient) or self.clock() > until:
                    raise
            self.sleep(INTERVAL)
