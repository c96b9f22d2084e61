"""A TLS context for clients that keep one: its certificates follow their files."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peloton.config.errors import ConfigError
from peloton.config.tls import Stamp, stamp_of

log = logging.getLogger(__name__)


class FollowingContext(ssl.SSLContext):
    """Begins each connection with a context of the files as they are then.

    Files that are wrong meanwhile change nothing. asyncio begins connections by `wrap_bio`.
    """

    _build: Callable[[], ssl.SSLContext]
    _files: Sequence[Path]
    _present: ssl.SSLContext
    _stamp: Stamp
    _protocols: list[str]

    def __new__(cls, build: Callable[[], ssl.SSLContext], files: Sequence[Path]) -> FollowingContext:
        """Build the first context. Raises what `build` does."""
        made = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        made._build, made._files = build, tuple(files)
        made._stamp = made._stamps()
        made._present = build()
        made._protocols = []
        return made

    def __init__(self, build: Callable[[], ssl.SSLContext], files: Sequence[Path]) -> None:
        """Return what `__new__` has made."""

    @property
    def present(self) -> ssl.SSLContext:
        """The context of the files as they are."""
        stamp = self._stamps()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._present = self._build()
            except ConfigError as error:
                log.error("certificates are as they were: %s", error)
            else:
                log.info("certificates for the API server are read again")
                self._offer_protocols()
        return self._present

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        """Offer protocols in new connections."""
        self._protocols = list(alpn_protocols)
        self._offer_protocols()

    def get_ca_certs(self, binary_form: bool = False) -> Any:
        """Return the authorities of the present context."""
        return self.present.get_ca_certs(binary_form)

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """Begin a connection."""
        return self.present.wrap_bio(*arguments, **named)

    def _offer_protocols(self) -> None:
        if self._protocols:
            self._present.set_alpn_protocols(self._protocols)

    def _stamps(self) -> Stamp:
        return tuple(map(stamp_of, self._files))
