"""Decode retry rules. Both APIs have the same messages."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.api.scheduling import scheduling_pb2
from peloton.errors import InvalidArgument
from peloton.model.retry import SIGNALS, RetryRule

_REASON = "REASON_"


def retry_rules(wire: Iterable[scheduling_pb2.RetryRule], path: str) -> tuple[RetryRule, ...]:
    """Decode retry rules. Raises InvalidArgument, with the path below `path`, for an unknown signal."""
    return tuple(_rule(each, f"{path}[{number}]") for number, each in enumerate(wire))


def _rule(wire: scheduling_pb2.RetryRule, path: str) -> RetryRule:
    return RetryRule(
        exit_codes=frozenset(wire.exit_codes),
        signals=frozenset(_signal(name, f"{path}.signals[{i}]") for i, name in enumerate(wire.signals)),
        reasons=frozenset(reason.removeprefix(_REASON) for reason in wire.reasons),
        hosts=tuple(wire.hosts),
        retries=wire.retries,
        another_host=wire.another_host,
    )


def _signal(name: str, path: str) -> int:
    try:
        return SIGNALS[name]
    except KeyError:
        raise InvalidArgument(path, name, "the name of a signal, such as SIGKILL or SIGSEGV") from None
