"""Compare the locked versions with a database of known weaknesses, without a network.

    make audit DB=FILE

FILE holds records in the OSV format, ecosystem PyPI: a zip archive of JSON files as it is published, a folder
of them, or one JSON file with a record or a list. Exit code 0: none is known, 1: some are, 2: the database
cannot be read. Without an argument after FILE, `locks/image.txt` and `locks/dev.txt` are compared.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
LOCKS = (ROOT / "locks" / "image.txt", ROOT / "locks" / "dev.txt")
ECOSYSTEM = "PyPI"
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^]]*\])?==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A known weakness of a locked version."""

    name: str
    version: str
    weakness: str
    fixed: str
    summary: str

    def __str__(self) -> str:
        """Return it as a line."""
        mend = f"fixed in {self.fixed}" if self.fixed else "no fixed version is known"
        return f"{self.name} {self.version}: {self.weakness}, {mend}: {self.summary}"


def canonical(name: str) -> str:
    """Return a name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, str]:
    """Return the versions in a file of locked requirements, by canonical name."""
    return {canonical(name): version for name, version in _PINNED.findall(text)}


def records(database: Path) -> Iterator[Mapping[str, Any]]:
    """Iterate over the records of a database. Raises OSError, ValueError."""
    if database.is_dir():
        texts: Iterable[str | bytes] = (file.read_bytes() for file in sorted(database.glob("**/*.json")))
        yield from _parsed(texts)
    elif zipfile.is_zipfile(database):
        with zipfile.ZipFile(database) as archive:
            names = [name for name in archive.namelist() if name.endswith(".json")]
            yield from _parsed(archive.read(name) for name in names)
    else:
        yield from _parsed([database.read_bytes()])


def _parsed(texts: Iterable[str | bytes]) -> Iterator[Mapping[str, Any]]:
    for text in texts:
        found = json.loads(text)
        for record in found if isinstance(found, list) else [found]:
            if not isinstance(record, dict) or "id" not in record:
                raise ValueError("a record without an id: it is not in the OSV format")
            yield record


def findings(versions: Mapping[str, str], known: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    """Iterate over the weaknesses of the versions, by canonical name, that are known and not withdrawn."""
    for record in known:
        if record.get("withdrawn"):
            continue
        for affected in record.get("affected", ()):
            package = affected.get("package", {})
            name = canonical(package.get("name", ""))
            if package.get("ecosystem") != ECOSYSTEM or name not in versions:
                continue
            version = versions[name]
            if version in affected.get("versions", ()) or _in_ranges(version, affected.get("ranges", ())):
                summary = " ".join(str(record.get("summary") or record.get("details", "")).split())[:200]
                yield Finding(name, version, str(record["id"]), _fixed(version, affected), summary)


def _in_ranges(text: str, ranges: Iterable[Mapping[str, Any]]) -> bool:
    version = Version(text)
    return any(
        _in_range(version, each.get("events", ())) for each in ranges if each.get("type") == "ECOSYSTEM"
    )


def _in_range(version: Version, events: Iterable[Mapping[str, str]]) -> bool:
    """Return whether a version is in a range: from `introduced` on, before `fixed`, up to `last_affected`."""
    inside = False
    steps = [(_version(value), kind) for event in events for kind, value in event.items()]
    for at, kind in sorted(steps, key=lambda step: step[0]):
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    return inside


def _version(text: str) -> Version:
    return Version("0.dev0" if text == "0" else text)


def _fixed(text: str, affected: Mapping[str, Any]) -> str:
    """Return the first version after this one in which it is fixed."""
    events = [event for each in affected.get("ranges", ()) for event in each.get("events", ())]
    later = [event["fixed"] for event in events if _after(event.get("fixed", ""), text)]
    return min(later, key=Version, default="")


def _after(one: str, other: str) -> bool:
    try:
        return Version(one) > Version(other)
    except InvalidVersion:  # a commit, of a range of another type
        return False


def main(arguments: list[str]) -> int:
    """Print the findings; return the exit code."""
    if not arguments or not arguments[0]:
        print("audit: give a database in the OSV format: make audit DB=FILE", file=sys.stderr)
        return 2
    versions: dict[str, str] = {}
    for file in map(Path, arguments[1:] or LOCKS):
        versions |= locked(file.read_text())
    try:
        found = sorted({str(each) for each in findings(versions, records(Path(arguments[0])))})
    except (OSError, ValueError) as error:
        print(f"audit: {arguments[0]}: {error}", file=sys.stderr)
        return 2
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{len(versions)} versions compared: {len(found) or 'no'} known weaknesses", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
