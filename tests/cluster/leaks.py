"""Search for secrets: in bytes, files, rows and processes, in the forms in which programs pass them on."""

from __future__ import annotations

import base64
import html
import json
import os
import sqlite3
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from google.protobuf import text_encoding  # type: ignore[attr-defined]

SHORTEST = 12
"""Bytes of a secret: a shorter one would be found by chance."""
BEGINNING = 20
"""Bytes of a form that are searched for: what was cut off is a leak too."""
Places = Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Secret:
    """What nobody may see."""

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, order=True)
class Find:
    """A secret in a place. Compared without the form: the first one that is found counts."""

    secret: str
    place: str
    form: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Where a secret has to be: names of secrets and places, in which `*` stands for any letters."""

    secret: str
    place: str

    def covers(self, find: Find) -> bool:
        return fnmatchcase(find.secret, self.secret) and fnmatchcase(find.place, self.place)


def forms(content: bytes) -> Mapping[str, bytes]:
    """Return the beginnings of a secret's forms, by their names. Those that are equal are there once."""
    found = {"as it is": content, "hex": content.hex().encode(), "HEX": content.hex().upper().encode()}
    found |= dict(_base64(content))
    found["bytes in Python"] = repr(content)[2:-1].encode()
    found["text of protobuf"] = text_encoding.CEscape(content, as_utf8=False).encode()
    found["URL"] = urllib.parse.quote(content, safe="").encode()
    found["path of a URL"] = urllib.parse.quote(content).encode()
    found["form"] = urllib.parse.quote_plus(content).encode()
    with suppress(UnicodeDecodeError):
        text = content.decode()
        found["text of protobuf, UTF-8"] = text_encoding.CEscape(text, as_utf8=True).encode()
        found["JSON"] = json.dumps(text)[1:-1].encode()
        found["JSON, UTF-8"] = json.dumps(text, ensure_ascii=False)[1:-1].encode()
        found["HTML"] = html.escape(text).encode()
        found["HTML, only tags"] = html.escape(text, quote=False).encode()
        found["text in Python"] = repr(text)[1:-1].encode()
    distinct: dict[bytes, str] = {}
    for name, form in found.items():
        distinct.setdefault(form[:BEGINNING], name)
    return {name: form for form, name in distinct.items()}


def _base64(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the secret as it stands within a longer text in Base64: one for each place of its first byte."""
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + content)[(shift * 8 + 5) // 6 :]
        whole = (len(content) + shift) * 8 // 6 - (shift * 8 + 5) // 6
        yield f"Base64+{shift}", encoded[:whole]
        yield f"Base64 of URLs+{shift}", encoded[:whole].translate(bytes.maketrans(b"+/", b"-_"))


def search(places: Places, secrets: Sequence[Secret]) -> set[Find]:
    """Return which secret is where. The name of a place is searched, too."""
    for secret in secrets:
        assert len(secret.content) >= SHORTEST, f"{secret.name} is too short to be searched for"
    needles = [(secret.name, form, bytes_) for secret in secrets for form, bytes_ in _needles(secret)]
    found: set[Find] = set()
    for place, content in places:
        whole = place.encode(errors="replace") + b"\0" + content
        found.update(Find(name, place, form) for name, form, needle in needles if needle in whole)
    return found


def _needles(secret: Secret) -> Iterable[tuple[str, bytes]]:
    return forms(secret.content).items()


def leaks(found: Iterable[Find], allowed: Sequence[Allowed]) -> list[Find]:
    """Return what is where it may not be."""
    return sorted(each for each in found if not any(entry.covers(each) for entry in allowed))


def unused(found: Iterable[Find], allowed: Sequence[Allowed]) -> list[Allowed]:
    """Return the entries of which nothing was found: they are wrong, or the search did not see the place."""
    found = list(found)
    return [entry for entry in allowed if not any(map(entry.covers, found))]


# Places.


def files(root: Path) -> Places:
    """Yield the files below a folder, by their paths in it."""
    for path in sorted(root.rglob("*")):
        with suppress(FileNotFoundError):  # it was removed meanwhile
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(root)), path.read_bytes()


def rows(database: Path) -> Places:
    """Yield the values of each table: in the file, long ones lie in several pieces."""
    with closing(sqlite3.connect(database, timeout=30)) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            values = (each for row in db.execute(f'SELECT * FROM "{table}"') for each in row)
            parts = (each if isinstance(each, bytes) else str(each).encode() for each in values)
            yield f"table {table}", b"\0".join(parts)


def processes() -> Places:
    """Yield command lines and environments of the processes that this user can see, but this one."""
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or is another's
            name = (folder / "comm").read_text().strip()
            for what in ("cmdline", "environ"):
                yield f"{what} of {name}", (folder / what).read_bytes()


# Secrets.


def of_key_file(file: Path) -> list[Secret]:
    """Return what must stay secret of a private key: its number, and the lines of the PEM file that have it.

    The rest of such a file is in the certificate, too.
    """
    key = load_pem_private_key(file.read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    number = key.private_numbers().private_value
    body = file.read_text().splitlines()[1:-1]
    return [
        Secret(f"key {file.stem}", number.to_bytes(32, "big")),
        Secret(f"key {file.stem}, its second line", body[1].encode()),
        Secret(f"key {file.stem}, in decimal", str(number).encode()),
    ]
