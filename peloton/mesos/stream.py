"""Decoding of the events of a subscription, without I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Literal

from mesos.v1.scheduler import scheduler_pb2
from peloton.mesos.codec import Codec, MalformedMessage
from peloton.mesos.detector import MasterAddress
from peloton.mesos.http import READ_BYTES, BrokenHttp, ResponseParser, location
from peloton.mesos.session import Session
from peloton.mesos.utf8 import has_valid_ids, replace_invalid_text
from peloton.recordio import RecordParser

Event = scheduler_pb2.Event
_Body = Literal["subscribed", "offers", "rescind", "update", "failure", "error"]
_BODIES: Mapping[int, _Body] = {
    Event.SUBSCRIBED: "subscribed",
    Event.OFFERS: "offers",
    Event.RESCIND: "rescind",
    Event.UPDATE: "update",
    Event.FAILURE: "failure",
    Event.ERROR: "error",
}
_NAMES = {number: name for name, number in Event.Type.items()}
OFFERS_AT_ONCE = 500
log = logging.getLogger(__name__)


class Redirected(Exception):
    """Another master leads."""

    def __init__(self, to: MasterAddress) -> None:
        self.to = to
        super().__init__(f"redirected to {to}")


class SessionRefused(Exception):
    """An ERROR event: the master ends the subscription."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class EventDecoder:
    """Decode the HTTP response, RecordIO and messages of one subscription; inform the session."""

    def __init__(self, codec: Codec, session: Session, max_record_bytes: int) -> None:
        self._codec = codec
        self._session = session
        self._http = ResponseParser(max_body_bytes=max_record_bytes + READ_BYTES)
        self._records = RecordParser(max_record_bytes)
        self._has_head = False
        self.ended = False
        """Whether the response is complete; the connection may stay open after it."""

    def feed(self, data: bytes, now: float) -> list[Event]:
        """Return the events that `data` completes, without SUBSCRIBED, HEARTBEAT and ERROR.

        Without bytes the stream has ended. Raises Redirected, SessionRefused, SessionBroken, MalformedStream,
        MalformedMessage or BrokenHttp, after which the connection must be closed.
        """
        if not data or self.ended:
            cut = "" if self._records.between_records else " within a record"
            raise BrokenHttp(f"the event stream ended{cut}")
        done = self._http.feed(data)
        answer = done[0] if done else self._http.current
        if not self._has_head and answer.has_head:
            self._head(answer.status, answer.headers, answer.text, now)
        body = b"".join(answer.body) if done else self._http.take_body()
        events = [self._event(record) for record in self._records.feed(body)]
        if events:
            self._session.touch(now)
        self.ended = bool(done)
        return [event for event in events if self._is_for_handler(event, now)]

    def _event(self, record: bytes) -> Event:
        event = self._codec.decode(record, Event)
        body = _BODIES.get(event.type)
        if body is not None and not event.HasField(body):
            raise MalformedMessage(f"an event {Event.Type.Name(event.type)} without {body}")
        if event.type == Event.SUBSCRIBED and not has_valid_ids(event.subscribed):
            raise MalformedMessage("an event SUBSCRIBED with ids that are not UTF-8")
        replace_invalid_text(event)
        return event

    def _is_for_handler(self, event: Event, now: float) -> bool:
        if event.type == Event.ERROR:
            raise SessionRefused(event.error.message)
        if event.type == Event.SUBSCRIBED:
            subscribed = event.subscribed
            self._session.on_subscribed(
                subscribed.framework_id.value,
                subscribed.heartbeat_interval_seconds,
                subscribed.master_info.id,
                now,
            )
            return False
        self._session.on_event(_NAMES[event.type])
        return event.type != Event.HEARTBEAT

    def _head(self, status: int, headers: Mapping[str, str], text: str, now: float) -> None:
        self._has_head = True
        if 300 <= status < 400 and "location" in headers:
            raise Redirected(location(headers["location"]))
        if status != 200:
            log.warning("Mesos answers SUBSCRIBE with %d %s", status, text[:500])
        self._session.response(status, headers.get("mesos-stream-id", ""), now)


def split_offers(events: list[Event], offers_at_once: int = OFFERS_AT_ONCE) -> Iterator[list[Event]]:
    """Split events with very many offers; keep the order.

    The first event of a subscription has the offers of all hosts, whose handling takes seconds.
    """
    held: list[Event] = []
    for event in events:
        if event.type != Event.OFFERS or len(event.offers.offers) <= offers_at_once:
            held.append(event)
            continue
        if held:
            yield held
            held = []
        for start in range(0, len(event.offers.offers), offers_at_once):
            part = Event(type=Event.OFFERS)
            part.offers.offers.extend(event.offers.offers[start : start + offers_at_once])
            yield [part]
    if held:
        yield held
