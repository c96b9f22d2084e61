"""Where archived jobs go: a file, or standard output."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

STDOUT = "-"


class Writer(Protocol):
    """Takes the lines of one job. Blocks; called from a thread."""

    def write(self, line: bytes) -> None:
        """Write a line."""
        ...

    def sync(self) -> None:
        """Make all lines durable. Raises OSError where that is not certain."""
        ...


class Sink(Protocol):
    """A place to write archived jobs to, one job at a time."""

    def open(self) -> AbstractContextManager[Writer]:
        """Open it for one job. Raises OSError."""
        ...


class FileSink:
    """Append to a file, which is opened anew for each job: it may be renamed at any time.

    The file is locked while a job is written, so that the lines of two writers never mix.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def open(self) -> Iterator[Writer]:
        """Open the file for one job, made where it is missing; blocks while another process writes."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._path) as file:
            end_line(file)
            yield FileWriter(file, self._path.parent)


class FileWriter:
    """Lines that are appended to a file."""

    def __init__(self, file: BinaryIO, directory: Path) -> None:
        self._file = file
        self._directory = directory

    def write(self, line: bytes) -> None:
        """Write a line."""
        self._file.write(line)

    def sync(self) -> None:
        """Force the lines, and the name of the file, to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


@contextmanager
def locked(path: Path) -> Iterator[BinaryIO]:
    """Open a file for appending, locked, and still the one of that name when it is locked."""
    while True:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                same = path.samefile(f"/proc/self/fd/{file.fileno()}")
            except FileNotFoundError:  # renamed, or removed, while this waited for the lock
                same = False
            if same:
                yield file
                return


def end_line(file: BinaryIO) -> None:
    """End a line that a writer which died has left, so that the next one stands for itself."""
    if file.seek(0, os.SEEK_END):
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")


class StreamSink:
    """Write to a stream, such as standard output. What it is connected to has to keep the lines."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @contextmanager
    def open(self) -> Iterator[Writer]:
        """Begin a job on a new line, for the stream may be appended to what a process that died wrote."""
        self._stream.write(b"\n")
        yield StreamWriter(self._stream)


class StreamWriter:
    """Lines that are written to a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        """Write a line."""
        self._stream.write(line)

    def sync(self) -> None:
        """Hand the lines over; force them to disk where the stream is a file."""
        self._stream.flush()
        try:
            os.fsync(self._stream.fileno())
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise


_NO_FILE = {22, 95}
"""EINVAL and EOPNOTSUPP: a pipe, a socket or a terminal."""
