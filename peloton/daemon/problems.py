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
from peloton.rpc.server import Service, service

PATIENCE_SECONDS = 5.0
"""For how long a part may look for what is wrong."""
Source = Callable[[], Awaitable[Iterable[Problem]]]


class Problems:
    """The parts of a process that can tell what is wrong."""

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        """`patience`: for how many seconds a part may look."""
        self._sources: dict[str, Source] = {}
        self._patience = patience

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
        """Return what is wrong, the worst first."""
        return pb.ListProblemsResponse(
            problems=[
                pb.Problem(level=each.level, text=each.text, link=each.link, remedy=each.remedy)
                for each in await self._problems.now()
            ]
        )


def problem_service(problems: Problems) -> Service:
    """Make the service, for `RpcServer.activate`."""
    return service(add_ProblemServiceServicer_to_server, ProblemService(problems))
