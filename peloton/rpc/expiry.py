"""When certificates end, and what is told of those that end soon."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path

from cryptography import x509

from peloton.model.amounts import duration
from peloton.model.problems import Problem

SOON_SECONDS = 14 * 24 * 3600.0
"""How long before its end a certificate is told: long enough to issue another one in working hours."""
REMEDY = "issue a new one with `peloton certs issue` and put it in place of the file, which is read again"


def expiring(files: Iterable[str], now: datetime.datetime) -> Iterator[Problem]:
    """Return what is wrong with the first certificate that ends in each of these PEM files, if that is soon.

    `now` has a time zone. Files that cannot be read are left out: whoever uses them tells.
    """
    for file in files:
        try:
            certificates = x509.load_pem_x509_certificates(Path(file).read_bytes())
        except (OSError, ValueError):
            continue
        left = min(each.not_valid_after_utc for each in certificates) - now
        seconds = left.total_seconds()
        if seconds <= 0:
            yield Problem("bad", f"The certificate {file} has ended: no new connection is made", "", REMEDY)
        elif seconds < SOON_SECONDS:
            text = f"The certificate {file} ends in {duration(seconds)}: no new connection is made then"
            yield Problem("warn", text, "", REMEDY)
