"""What the resource manager knows of a task that waits, as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peloton.model.amounts import amount_of
from peloton.model.hostcounts import in_words
from peloton.model.plural import plural
from peloton.model.shortage import counted_hosts
from peloton.model.states import TaskState
from peloton.present.texts import clean
from peloton.present.times import short_time

if TYPE_CHECKING:
    from peloton.private.resmgr.explain.explain_pb2 import Excess, Explanation, Position, Share

_INDENT = "  "


def explanation_lines(found: Explanation) -> list[str]:
    """Return what the resource manager knows beside state, cause and shares."""
    lines = [f"since {short_time(found.since)} in pool {clean(found.pool)}"]
    if found.reason and int(found.state) == TaskState.PREEMPTING:
        lines.append(clean(found.reason))
    if found.gang_size > 1:
        lines.append(
            f"a gang of {plural(found.gang_size, 'task')}: admitted and placed together or not at all"
        )
    if found.HasField("position"):
        lines.append(position_text(found.position))
    if found.HasField("head_check") and found.HasField("check"):
        lines.append(f"its own gang does not pass either: {clean(found.check.text)}")
    if found.host:
        lines.append(f"host {clean(found.host)}")
    if found.holder:
        lines.append(f"held by {clean(found.holder)}")
    lines += _tries_lines(found)
    lines += map(_excess_text, found.excesses)
    if found.until:
        again = int(found.state) == TaskState.READY and not found.HasField("position")
        lines.append(f"{'tried again' if again else 'this wait ends'} at {short_time(found.until)}")
    return lines


def position_text(position: Position, last: int = 0) -> str:
    """Describe a place in a queue; `last` is the place of the last one of several."""
    where = str(position.position) + (f" to {last}" if last > position.position else "")
    ahead = ", ".join(amount_of(each.amount, each.kind) for each in position.ahead)
    gangs = position.position - 1
    if not gangs:
        text = "at the head"
    else:
        text = f"{plural(gangs, 'gang')} ahead" + (f" with {ahead}" if ahead else "")
    return f"queue {clean(position.queue)}: position {where} of {position.length}, {text}"


def _tries_lines(found: Explanation) -> list[str]:
    if not found.HasField("tries"):
        return []
    tries = found.tries
    returns = f", returned to its pool's queue {_times(tries.returns)}" if tries.returns else ""
    lines = [
        f"placing failed {tries.failed} of {tries.most} times{returns}; last: {clean(tries.reason)}",
    ]
    if tries.failed < tries.most:
        left = tries.most - tries.failed
        lines.append(f"it keeps its place for {_tries(left)} more; then others may pass it")
    counts = sorted(tries.hosts.items(), key=lambda item: (-item[1], item[0]))
    return lines + [f"{_INDENT}{counted_hosts(count)} {clean(in_words(name))}" for name, count in counts]


def _excess_text(excess: Excess) -> str:
    """Describe what is done about a pool that holds more than its entitlement."""
    held, may = (amount_of(value, excess.kind) for value in (excess.allocation, excess.entitlement))
    where = f" on {clean(excess.hosts)}" if excess.hosts else ""
    revocable = " of revocable tasks" if excess.slack else ""
    text = f"{clean(excess.pool)} holds {held}{revocable} and is entitled to {may}{where}"
    if excess.leaving:
        return f"preemption is under way, of {plural(excess.leaving, 'task')}: {text}"
    if not excess.checks:
        return f"no preemption: {text}, but its tasks are not preemptible or its policies forbid it"
    if not excess.due:
        return f"preemption after {plural(excess.checks, 'check')}: {text}"
    return f"preemption at {short_time(excess.due)} or later: {text}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _tries(count: int) -> str:
    return plural(count, "try", "tries")


def blocking_shares(found: Explanation) -> list[Share]:
    """Return the shares of the pools of a task that waits for admission."""
    return list(found.shares) if int(found.state) == TaskState.PENDING else []
