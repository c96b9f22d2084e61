"""The page of a run's output: which part of which file it shows, its lines, what a search finds. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from peloton.errors import InvalidArgument
from peloton.web.sandbox import CHUNK_BYTES, inner_path

BOTH = "both"
"""The value of `file` that stands for OUTPUT, together."""
OUTPUT = ("stdout", "stderr")
START, END = "start", "end"
LONGEST_FIND_CHARACTERS = 200
MOST_MATCHES = 200
"""Lines that a search shows."""
LONGEST_LINE_CHARACTERS = 400
"""Characters of a line that a search shows."""
_MARKS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
"""Colours and movements of a terminal."""


def plain(text: str) -> str:
    """Return text for people, without a terminal's marks."""
    return _MARKS.sub("", text).replace("\r\n", "\n").replace("\0", "\N{SYMBOL FOR NULL}")


def decoded(data: bytes) -> str:
    """Return the text of bytes for people; what is not UTF-8 is replaced."""
    return plain(data.decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class LogSearch:
    """What is shown of the output of an instance."""

    job_id: str
    instance: int
    run: str = ""
    """Its number; empty for the last launched one."""
    file: str = BOTH
    """BOTH, or a path in the sandbox."""
    place: str = END
    """START, END, or the first byte."""
    before: int = 0
    """Show what ends at this byte instead; 0: not so."""
    find: str = ""

    @classmethod
    def of(cls, job_id: str, instance: int, query: QueryParams) -> LogSearch:
        """Return the search of an address. Raises InvalidArgument."""
        file = query.get("file", BOTH)
        file = file if file == BOTH else inner_path(file)
        if not file:
            raise InvalidArgument("file", file, "the path of a file in the sandbox, such as stdout")
        place = query.get("from") or END
        if place not in (START, END):
            _byte("from", place)
        find = query.get("find", "")
        if len(find) > LONGEST_FIND_CHARACTERS:
            raise InvalidArgument("find", f"{find[:20]}…", f"at most {LONGEST_FIND_CHARACTERS} characters")
        return cls(
            job_id,
            instance,
            run_number(query.get("run", "")),
            file,
            place,
            _byte("before", query.get("before") or "0"),
            find,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The files that are shown."""
        return OUTPUT if self.file == BOTH else (self.file,)

    @property
    def instance_url(self) -> str:
        """The address of the instance's page."""
        return f"/jobs/{quote(self.job_id, safe='')}/instances/{self.instance}"

    @property
    def url(self) -> str:
        """The address of this page."""
        pairs = {
            "run": self.run,
            "file": "" if self.file == BOTH else self.file,
            "from": "" if self.place == END else self.place,
            "before": str(self.before or ""),
            "find": self.find,
        }
        query = urlencode({key: value for key, value in pairs.items() if value})
        return f"{self.instance_url}/logs{'?' if query else ''}{query}"

    def at(self, file: str, place: str | int) -> str:
        """Return the address of a part of one file, from START, END or a byte."""
        return replace(self, file=file, place=str(place), before=0).url

    def up_to(self, file: str, end: int) -> str:
        """Return the address of the part of one file that ends at a byte."""
        return replace(self, file=file, place=END, before=end).url

    def download(self, file: str) -> str:
        """Return the address of a whole file."""
        run = {"run": self.run} if self.run else {}
        return f"{self.instance_url}/download?{urlencode({**run, 'path': file})}"

    def span(self, size: int) -> tuple[int, int]:
        """Return the first byte that is shown of a file of this size, and the most bytes."""
        if self.before:
            end = min(self.before, size)
            return max(end - CHUNK_BYTES, 0), min(end, CHUNK_BYTES)
        if self.place == END:
            return max(size - CHUNK_BYTES, 0), CHUNK_BYTES
        return (0 if self.place == START else min(int(self.place), size)), CHUNK_BYTES


def run_number(text: str) -> str:
    """Return the number of a run, empty for the last launched one. Raises InvalidArgument."""
    if text and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidArgument("run", text, "the number of a run, such as 2")
    return text


def _byte(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidArgument(
            name, text, f"{START}, {END} or a number of bytes" if name == "from" else "a number of bytes"
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of output, in parts of which some are what was searched for."""

    parts: Sequence[tuple[str, bool]]
    whole: bool
    """Whether it has ended."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file."""

    name: str
    lines: Sequence[Line]
    first: int
    """The byte at which it begins."""
    next: int
    """The byte after it."""
    size: int
    """Of the whole file."""

    @property
    def error(self) -> bool:
        """Whether it is shown as errors are."""
        return self.name == OUTPUT[1]

    @property
    def at_end(self) -> bool:
        """Whether it reaches to the end, so that it can be followed."""
        return self.next >= self.size


def part_of(search: LogSearch, name: str, first: int, data: bytes, size: int) -> Part:
    """Return the part of a file that was read, in whole lines where there are such."""
    exact = search.place not in (START, END) and not search.before
    if first > 0 and not exact and (cut := data.find(b"\n") + 1):
        first, data = first + cut, data[cut:]
    if first + len(data) < size and not search.before and (cut := data.rfind(b"\n") + 1):
        data = data[:cut]
    return Part(
        name, list(lines_of(data, search.find)), first, first + len(data), max(size, first + len(data))
    )


def lines_of(data: bytes, find: str) -> Iterator[Line]:
    """Yield the lines of a text, with what is searched for marked."""
    rows = decoded(data).split("\n")
    for row in rows[:-1]:
        yield Line(marked(row, find), True)
    if rows[-1]:
        yield Line(marked(rows[-1], find), False)


def marked(text: str, find: str) -> list[tuple[str, bool]]:
    """Cut a text where it holds what is searched for; letters of either case are alike."""
    if not find:
        return [(text, False)]
    pieces = re.split(f"({re.escape(find)})", text, flags=re.IGNORECASE)
    return [(piece, at % 2 == 1) for at, piece in enumerate(pieces) if piece]


@dataclass(frozen=True, slots=True)
class Match:
    """A line that a search found."""

    file: str
    number: int
    """From 1."""
    url: str
    parts: Sequence[tuple[str, bool]]


@dataclass(slots=True)
class Matcher:
    """Searches a file that arrives in pieces."""

    search: LogSearch
    file: str
    most: int = MOST_MATCHES
    found: list[Match] = field(default_factory=list)
    read: int = 0
    _lines: int = 0
    _rest: bytes = b""
    _at: int = 0

    def feed(self, piece: bytes) -> None:
        """Search a piece."""
        self.read += len(piece)
        held = self._rest + piece
        cut = held.rfind(b"\n") + 1
        if not cut and len(held) < CHUNK_BYTES:
            self._rest = held
            return
        cut = cut or len(held)
        self._rest = held[cut:]
        self._look(held[:cut])

    def end(self) -> None:
        """Search the last line, which may not have ended."""
        self._look(self._rest)
        self._rest = b""

    @property
    def full(self) -> bool:
        """Whether there may be more matches than are shown."""
        return len(self.found) >= self.most

    def _look(self, held: bytes) -> None:
        wanted = self.search.find.lower()
        if wanted not in held.decode("utf-8", "replace").lower():
            self._lines += held.count(b"\n")
            self._at += len(held)
            return
        for row in re.findall(rb"[^\n]*\n|[^\n]+", held):
            text = decoded(row.rstrip(b"\n"))
            if wanted in text.lower() and not self.full:
                url = self.search.at(self.file, self._at)
                self.found.append(
                    Match(self.file, self._lines + 1, url, marked(_around(text, wanted), self.search.find))
                )
            self._lines += row.endswith(b"\n")
            self._at += len(row)


def _around(text: str, wanted: str) -> str:
    """Return the part of a long line where the wanted text is."""
    if len(text) <= LONGEST_LINE_CHARACTERS:
        return text
    start = max(text.lower().find(wanted) - LONGEST_LINE_CHARACTERS // 4, 0)
    return (
        ("…" if start else "")
        + text[start : start + LONGEST_LINE_CHARACTERS]
        + ("…" if start + LONGEST_LINE_CHARACTERS < len(text) else "")
    )
