"""Tables of what jobs have held, used and lost: `peloton usage`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from peloton.cli.listing import Listing, listing
from peloton.model.amounts import percent, short
from peloton.present.times import rfc3339

if TYPE_CHECKING:
    from peloton.private.jobmgr.usage.usage_pb2 import Account, Amounts

HOUR, MB_HOURS_PER_GB = 3600, 3600 * 1024
NANOSECONDS = 1_000_000_000
SMALLEST_HOURS = 0.01
"""Less than this is not told as a number, nor is a share of it."""
EXACT = (
    *("held_cpu", "held_gpu", "held_memory"),
    *("used_cpu", "used_memory"),
    *("lost_cpu", "lost_gpu", "lost_memory"),
)
"""The fields of an account's amounts."""
EXACT_HEADS = (
    *("held_core_seconds", "held_gpu_seconds", "held_memory_mb_seconds"),
    *("used_core_seconds", "used_memory_mb_seconds"),
    *("lost_core_seconds", "lost_gpu_seconds", "lost_memory_mb_seconds"),
)
HEADS = ("Core Hours", "Used", "GB Hours", "Used", "GPU Hours", "Lost Core Hours")
WIDE = ("Lost GB Hours", "Lost GPU Hours")


def account_listing(accounts: Iterable[Account], keys: Sequence[str], periods: bool) -> Listing:
    """Return a table for people: hours that were held, with what of them was used.

    `keys` are those by which accounts are told apart (pool, owner, label), `periods` whether times are, too.
    """
    heads = [*(["From"] if periods else []), *(_HEADS[key] for key in keys), *HEADS, *WIDE]
    rows = [[*_names(each, keys, periods), *_cells(each.amounts)] for each in accounts]
    return listing(heads, rows, wide=len(WIDE))


def exact_listing(accounts: Iterable[Account], keys: Sequence[str], periods: bool) -> Listing:
    """Return a table for programs: seconds, to the last millionth."""
    heads = [*(["from"] if periods else []), *keys, *EXACT_HEADS]
    rows = [
        [*_names(each, keys, periods), *(_exact(getattr(each.amounts, name)) for name in EXACT)]
        for each in accounts
    ]
    return listing(heads, rows)


_HEADS = {"pool": "Pool", "owner": "Owner", "label": "Labels"}


def _names(account: Account, keys: Sequence[str], periods: bool) -> list[str]:
    labels = ",".join(f"{key}={account.labels[key]}" for key in sorted(account.labels))
    named = {
        "pool": account.pool or f"deleted pool {account.pool_id}",
        "owner": account.owner,
        "label": labels,
    }
    begin = [rfc3339(account.start * NANOSECONDS)[:16] + "Z"] if periods else []
    return [*begin, *(named[key] for key in keys)]


def _cells(amounts: Amounts) -> list[str]:
    memory, used = amounts.held_memory / MB_HOURS_PER_GB, amounts.used_memory / MB_HOURS_PER_GB
    return [
        *_with_used(amounts.held_cpu / HOUR, amounts.used_cpu / HOUR),
        *_with_used(memory, used),
        _hours(amounts.held_gpu / HOUR),
        _hours(amounts.lost_cpu / HOUR),
        _hours(amounts.lost_memory / MB_HOURS_PER_GB),
        _hours(amounts.lost_gpu / HOUR),
    ]


def _with_used(held: float, used: float) -> list[str]:
    share = f" ({percent(used, held)})" if held >= SMALLEST_HOURS else ""
    return [_hours(held), f"{_hours(used) or 0}{share}" if held else ""]


def _hours(value: float) -> str:
    return short(value) if abs(value) >= SMALLEST_HOURS else f"< {SMALLEST_HOURS}" if value > 0 else ""


def _exact(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
