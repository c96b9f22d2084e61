r"""RecordIO, the framing of Mesos' event stream: a sequence of `<decimal length>\n<record>`.

Records are independent of HTTP chunks and of reads.
"""

from __future__ import annotations

_MAX_DIGITS = 10


RECORDIO = "application/recordio"
"""The media type; that of the records stands in the header `Message-Content-Type`."""


def frame(record: bytes) -> bytes:
    """Return a record with its length in front."""
    return b"%d\n%b" % (len(record), record)


class MalformedStream(ValueError):
    """The bytes are not RecordIO; the connection must be closed."""


class RecordParser:
    """Split a byte stream into records of at most `max_record_bytes`."""

    def __init__(self, max_record_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_record_bytes = max_record_bytes
        self._buffer = bytearray()
        self._wanted: int | None = None

    @property
    def between_records(self) -> bool:
        """Return whether the stream may end here: no record is incomplete."""
        return self._wanted is None and not self._buffer

    def feed(self, data: bytes) -> list[bytes]:
        """Return the records that `data` completes. Raises MalformedStream."""
        buffer = self._buffer
        buffer += data
        records: list[bytes] = []
        start = 0
        while True:
            if self._wanted is None:
                head = buffer.find(b"\n", start, start + _MAX_DIGITS + 1)
                if head < 0:
                    self._check_head(bytes(buffer[start : start + _MAX_DIGITS + 1]))
                    break
                self._wanted = self._length(bytes(buffer[start:head]))
                start = head + 1
            if len(buffer) - start < self._wanted:
                break
            records.append(bytes(buffer[start : start + self._wanted]))
            start += self._wanted
            self._wanted = None
        del buffer[:start]
        return records

    def _check_head(self, head: bytes) -> None:
        if head and (len(head) > _MAX_DIGITS or not head.isdigit()):
            raise MalformedStream(
                f"record length {head[:_MAX_DIGITS]!r}… is not a decimal number and a newline"
            )

    def _length(self, head: bytes) -> int:
        if not head.isdigit():
            raise MalformedStream(f"record length {head!r} is not a decimal number")
        length = int(head)
        if length > self._max_record_bytes:
            raise MalformedStream(
                f"a record of {length} bytes is over the limit of {self._max_record_bytes} "
                "(mesos.max_record_bytes)"
            )
        return length
