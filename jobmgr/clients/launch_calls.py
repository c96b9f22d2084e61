"""Calls that launch: those that are made at one moment go together."""

from __future__ import annotations

import asyncio

from jobmgr.clients.answers import CALL_SECONDS
from jobmgr.clients.launches import HostLaunch, answer_from, answer_of, older_request_of, request_of
from jobmgr.core.launch_answers import LaunchAnswer, LaunchResult
from peloton.calls.jobmgr import LAUNCH_ON_HOST, LAUNCH_TASKS
from peloton.calls.rpc import Caller
from peloton.errors import InvalidArgument, PelotonError, Refused, Unavailable, Unimplemented
from peloton.rpc.errors import InvalidRequest

HOSTS_PER_CALL = 64
BYTES_PER_CALL = 1024 * 1024
"""Of configs; one host with more goes alone."""
Answer = asyncio.Future[LaunchAnswer]


class _Batch:
    """Launches that go together, each with its answer."""

    def __init__(self) -> None:
        self.launches: list[tuple[HostLaunch, Answer]] = []
        self._bytes = 0

    def takes(self, launch: HostLaunch) -> bool:
        """Return whether there is room for one more."""
        if not self.launches:
            return True
        return len(self.launches) < HOSTS_PER_CALL and self._bytes + launch.size <= BYTES_PER_CALL

    def add(self, launch: HostLaunch) -> Answer:
        """Add a launch; return its answer to be."""
        answer: Answer = asyncio.get_running_loop().create_future()
        self.launches.append((launch, answer))
        self._bytes += launch.size
        return answer

    def fail(self, error: PelotonError) -> None:
        """Answer with an error what is not answered."""
        for _, answer in self.launches:
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # the caller may be gone


class LaunchCalls:
    """Makes the calls."""

    def __init__(self, client: Caller) -> None:
        self._client = client
        self._next = _Batch()

    async def launch(self, launch: HostLaunch) -> LaunchAnswer:
        """Launch on one host. Raises PelotonError, where the outcome is not known."""
        if not self._next.takes(launch):
            self._next = _Batch()
        batch = self._next
        answer = batch.add(launch)
        if len(batch.launches) == 1:
            try:
                await asyncio.sleep(0)  # those that come at this moment join
                if self._next is batch:
                    self._next = _Batch()
                await self._call(batch)
            finally:
                if self._next is batch:
                    self._next = _Batch()
                batch.fail(Unavailable("the call that launches was broken off"))
        return await answer

    async def _call(self, batch: _Batch) -> None:
        """Make the call of a batch, and answer its launches."""
        launches = [launch for launch, _ in batch.launches]
        try:
            answer = await self._client.call(
                LAUNCH_TASKS, request_of(launches), timeout=CALL_SECONDS, retry=False
            )
        except Unimplemented:
            for launch, waiting in batch.launches:
                await self._call_older(launch, waiting)
            return
        except Refused as error:
            refused = LaunchAnswer(LaunchResult.CLAIM_OVER, str(error))
            for _, waiting in batch.launches:
                _answer(waiting, refused)
            return
        except (InvalidRequest, InvalidArgument) as error:
            await self._find_faulty(batch, error)
            return
        except PelotonError as error:
            batch.fail(error)
            return
        if len(answer.outcomes) != len(launches):
            batch.fail(Unavailable(f"hostmgr answers {len(answer.outcomes)} of {len(launches)} launches"))
            return
        for (_, waiting), outcome in zip(batch.launches, answer.outcomes, strict=True):
            try:
                _answer(waiting, answer_of(outcome))
            except Unavailable as error:
                _fail(waiting, error)

    async def _find_faulty(self, batch: _Batch, error: PelotonError) -> None:
        """Launch on each host alone: hostmgr has refused the whole call for what one of them has."""
        if len(batch.launches) == 1:
            _answer(batch.launches[0][1], LaunchAnswer(LaunchResult.FAULTY, str(error)))
            return
        for each in batch.launches:
            alone = _Batch()
            alone.launches.append(each)
            await self._call(alone)

    async def _call_older(self, launch: HostLaunch, waiting: Answer) -> None:
        """Launch on one host by the method that older host managers have."""
        request = older_request_of(launch)
        try:
            answer = await self._client.call(LAUNCH_ON_HOST, request, timeout=CALL_SECONDS, retry=False)
            _answer(waiting, answer_from(answer))
        except Refused as error:
            _answer(waiting, LaunchAnswer(LaunchResult.CLAIM_OVER, str(error)))
        except (InvalidRequest, InvalidArgument) as error:
            _answer(waiting, LaunchAnswer(LaunchResult.FAULTY, str(error)))
        except PelotonError as error:
            _fail(waiting, error)


def _answer(waiting: Answer, answer: LaunchAnswer) -> None:
    if not waiting.done():
        waiting.set_result(answer)


def _fail(waiting: Answer, error: PelotonError) -> None:
    if not waiting.done():
        waiting.set_exception(error)
        waiting.exception()  # the caller may be gone
