"""What a process sees that is wrong, though it works. Its parts tell it when they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from peloton.errors import PelotonError
from peloton.model.amounts import duration
from peloton.model.problems import Problem, worst_first
from peloton.private.problems import problems_pb2 as pb
from peloton.private.problems.problems_pb2_grpc import (
    ProblemServiceServicer,
    add_ProblemServiceServicer_to_server,
)
from peloton.rpc.peers import passed
from peloton.rpc.server import Service, service

PATIENCE_SECONDS = 5.0
"""For how long a part may look for what is wrong."""
Source = Callable[[], Awaitable[Iterable[Problem]]]
Elsewhere = Callable[[Any], Awaitable[Iterable[Problem]]]
"""Asks other instances, for a call with this context."""


class Problems:
    """The parts of a process that can tell what is wrong."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        """`patience`: for how many seconds a part may look."""
        self._sources: dict[str, Source] = {}
        self._patience = patience
        self.elsewhere: Elsewhere | None = None
        """Tells what other instances see that share the work of this one; None: there are none."""

    def add(self, name: str, source: Source) -> None:
        """Ask a part from now on. `name` says what it looks at, as in "it is not known how the store is"."""
        assert name not in self._sources, f"{name} is asked already"
        self._sources[name] = source

    @contextmanager
    def telling(self, name: str, source: Source) -> Iterator[None]:
        """Ask a part while the body runs."""
        self.add(name, source)
        try:
            yield
        finally:
            del self._sources[name]

    async def now(self) -> list[Problem]:
        """Return what is wrong, the worst first. A part that cannot tell is one of the problems."""
        sources = list(self._sources.items())
        told = await asyncio.gather(*(self._ask(name, source) for name, source in sources))
        return worst_first(problem for found in told for problem in found)

    async def _ask(self, name: str, source: Source) -> Iterable[Problem]:
        try:
            async with asyncio.timeout(self._patience):
                return await source()
        except TimeoutError:
            waited = duration(self._patience)
            return [Problem("warn", f"It is not known {name}: there was no answer in {waited}")]
        except PelotonError as error:
            return [Problem("warn", f"It is not known {name}: {error}")]


class ProblemService(ProblemServiceServicer):
    """Answers with what the process sees now."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    async def ListProblems(self, request: pb.ListProblemsRequest, context: Any) -> pb.ListProblemsResponse:
        """Return what is wrong, the worst first.

        Instances that share the work are asked for what they see, and each thing is told once.
        """
        elsewhere = self._problems.elsewhere
        if elsewhere is None or passed(context.invocation_metadata()):
            found: Iterable[Problem] = await self._problems.now()
        else:
            own, others = await asyncio.gather(self._problems.now(), elsewhere(context))
            found = worst_first(dict.fromkeys((*own, *others), True))
        return pb.ListProblemsResponse(
            problems=[
                pb.Problem(level=each.level, text=each.text, link=each.link, remedy=each.remedy)
                for each in found
            ]
        )


def problem_service(problems: Problems) -> Service:
    """Make the service, for `RpcServer.activate`."""
    return service(add_ProblemServiceServicer_to_server, ProblemService(problems))
