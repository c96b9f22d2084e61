"""The output of a session as records of chunked replies: to who launched it, and to those attached to it."""

from __future__ import annotations

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.agent import agent_pb2 as agent
from minicluster.mesos.agent.calls import MediaTypes, encode
from minicluster.mesos.agent.sessions import Terminal
from minicluster.mesos.common.http import Connection
from peloton.recordio import RECORDIO

_STREAMS = {"STDOUT": agent.ProcessIO.Data.STDOUT, "STDERR": agent.ProcessIO.Data.STDERR}


class _Stream:
    """One reply."""

    def __init__(self, connection: Connection, media: MediaTypes) -> None:
        self.connection = connection
        self._media = media
        self._record_type = media.message_accept or media.accept

    def begin(self) -> None:
        """Send the head of the reply."""
        headers = (("Message-Content-Type", self._record_type),) if self._media.accept == RECORDIO else ()
        self.connection.start_stream(self._media.accept, headers)

    def send(self, message: agent.ProcessIO) -> None:
        """Send one record."""
        self.connection.send_records([encode(message, self._record_type)])

    def end(self) -> None:
        """End the reply."""
        self.connection.on_lost = None
        self.connection.end_stream()


class Streams:
    """All readers of the output of one session."""

    def __init__(self, connection: Connection, media: MediaTypes) -> None:
        """Begin with the reader whose call launches the session."""
        self._streams = [_Stream(connection, media)]
        self._begun = False

    def attach(self, connection: Connection, media: MediaTypes) -> None:
        """Add a reader, which gets what is written from now on."""
        stream = _Stream(connection, media)
        connection.on_lost = lambda: self._streams.remove(stream)
        self._streams.append(stream)
        if self._begun:
            stream.begin()

    def begin(self) -> None:
        """Tell that the session has begun."""
        self._begun = True
        for stream in self._streams:
            stream.begin()

    def write(self, stream: str, data: bytes) -> None:
        """Send a piece to all readers."""
        piece = agent.ProcessIO.Data(type=_STREAMS[stream], data=data)
        message = agent.ProcessIO(type=agent.ProcessIO.DATA, data=piece)
        for each in self._streams:
            each.send(message)

    async def writable(self) -> None:
        """Wait while a reader is slow."""
        for stream in list(self._streams):
            await stream.connection.writable()

    def end(self) -> None:
        """End all replies."""
        for stream in self._streams:
            stream.end()


def terminal_of(tty: mesos.TTYInfo) -> Terminal:
    """Return the size of a terminal. Raise ValueError where it cannot be one."""
    if not tty.HasField("window_size"):
        return Terminal()
    found = Terminal(tty.window_size.rows, tty.window_size.columns)
    if not (0 < found.rows < 1 << 16 and 0 < found.columns < 1 << 16):
        raise ValueError(f"'window_size' of {found.rows} rows and {found.columns} columns")
    return found


def described(container: mesos.ContainerID) -> str:
    """Return a container's id with those it is nested in, as Mesos writes it."""
    parent = f"{described(container.parent)}." if container.HasField("parent") else ""
    return f"{parent}{container.value}"
