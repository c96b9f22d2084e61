"""What calls the leader of a role, made of what a client knows: a discovery, credentials, metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peloton.client import channel, finding
from peloton.client.channel import Metadata
from peloton.client.finding import Discovery
from peloton.client.following import Leader, Way
from peloton.client.seeking import Probes
from peloton.client.sync_async import Driver
from peloton.client.tls import Tls


def follow(
    found: Discovery,
    role: str,
    driver: Driver,
    open_channel: Callable[..., Any],
    metadata: Callable[[], Metadata],
    timeout: float | None,
    tls: Tls | None,
) -> Leader:
    """Return what calls the leader that is found; `timeout` (seconds) is for calls without one."""
    credentials = tls.credentials() if tls else None
    probes = Probes(role, lambda target: channel.open_channel(target, credentials), metadata)
    return Leader(
        Way(
            driver,
            address=lambda seconds: finding.address_within(found, role, seconds),
            open=lambda target: open_channel(target, credentials),
            metadata=metadata,
            timeout=timeout,
            repeats=found.follows(role),
            tls=tls,
            watch=lambda tell: finding.watch(found, role, tell),
            elsewhere=(lambda target: finding.others(found, role, probes.leads, target))
            if finding.may_seek(found, role)
            else None,
            close=probes.close,
        )
    )
