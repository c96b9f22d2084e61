"""When certificates end, and what is told of those that end soon."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from cryptography import x509

from peloton.clock import NANOSECONDS, Clock
from peloton.config.encryption import ServerTlsSettings
from peloton.model.amounts import duration
from peloton.model.problems import Problem

SOON_SECONDS = 14 * 24 * 3600.0
"""How long before its end a certificate is told: long enough to issue another one in working hours."""
REMEDY = "issue a new one with `peloton certs issue` and put it in place of the file, which is read again"
CLIENT_REMEDY = "put a new one in place of the file, which is read again"
SERVER_REMEDY = "give the server a new one"
ENDED = 10
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED."""
LOOK_SECONDS = 600.0
"""Servers are asked for their certificates as often at most: each time is a connection."""
CONNECT_SECONDS = 2.0
MOST_SERVERS = 16
Place = tuple[str, int]
"""Host and port."""


def now_of(clock: Clock) -> datetime.datetime:
    """Return the time of a clock, with its zone."""
    return datetime.datetime.fromtimestamp(clock.wall() / NANOSECONDS, datetime.UTC)


def expiring(files: Iterable[str], now: datetime.datetime, remedy: str = REMEDY) -> Iterator[Problem]:
    """Return what is wrong with the first certificate that ends in each of these PEM files, if that is soon.

    `now` has a time zone. Files that cannot be read are left out: whoever uses them tells.
    """
    for file in files:
        try:
            certificates = x509.load_pem_x509_certificates(Path(file).read_bytes())
        except (OSError, ValueError):
            continue
        ends = min(each.not_valid_after_utc for each in certificates)
        yield from _told(f"The certificate {file}", ends - now, remedy)


def _told(what: str, left: datetime.timedelta, remedy: str) -> Iterator[Problem]:
    seconds = left.total_seconds()
    if seconds <= 0:
        yield Problem("bad", f"{what} has ended: no new connection is made", "", remedy)
    elif seconds < SOON_SECONDS:
        yield Problem(
            "warn", f"{what} ends in {duration(seconds)}: no new connection is made then", "", remedy
        )


class ServerCertificates:
    """When the certificates of servers of others end, and those by which they know us."""

    def __init__(
        self,
        name: str,
        places: Sequence[Place],
        tls: ServerTlsSettings,
        context: Callable[[], ssl.SSLContext],
        clock: Clock,
    ) -> None:
        """`name`: that of the service, such as ZooKeeper. Its servers are at `places`."""
        self._name = name
        self._places = places[:MOST_SERVERS]
        self._files = [str(file) for file in (tls.certificate_file, tls.ca_file) if file is not None]
        self._context = context
        self._clock = clock
        self._looked = -LOOK_SECONDS
        self._ends: dict[Place, datetime.datetime] = {}

    async def problems(self) -> list[Problem]:
        """Return the certificates that have ended, or do so soon. Servers are asked now and then."""
        if self._clock.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = self._clock.monotonic()
            await asyncio.gather(*(self._look(place) for place in self._places))
        now = now_of(self._clock)
        found = list(expiring(self._files, now, CLIENT_REMEDY))
        for (host, port), ends in self._ends.items():
            found += _told(f"The certificate of {self._name} at {host}:{port}", ends - now, SERVER_REMEDY)
        return found

    async def _look(self, place: Place) -> None:
        """Remember when the certificate of a server ends; that it is away is told by whoever uses it."""
        host, port = place
        with suppress(OSError, TimeoutError, ValueError):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, writer = await asyncio.open_connection(
                        host, port, ssl=self._context(), server_hostname=host
                    )
            except ssl.SSLCertVerificationError as error:
                if error.verify_code == ENDED:
                    self._ends[place] = now_of(self._clock)
                return
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            self._ends[place] = x509.load_der_x509_certificate(shown).not_valid_after_utc
