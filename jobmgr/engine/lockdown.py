"""Lockdown: the components of jobmgr that an operator has halted.

A component is stored before it is halted, and lets work again after that is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NoReturn

from peloton.errors import Refused, Unavailable
from peloton.model.lockdown import Component
from storage.interface import Store

FOLLOW_SECONDS = 1.0
log = logging.getLogger(__name__)


class Lockdown:
    """The locked components, as they are stored."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._locked: frozenset[Component] = frozenset()
        self._changed = asyncio.Event()

    async def load(self) -> None:
        """Read from the store which components are locked. Raises Unavailable."""
        self._set(await self._store.lockdowns.all())

    async def follow(self, every: float = FOLLOW_SECONDS) -> NoReturn:
        """Read again and again what is locked, where other instances lock too."""
        while True:
            await asyncio.sleep(every)
            before = self._locked
            try:
                locked = frozenset(await self._store.lockdowns.all())
            except Unavailable as error:
                log.warning("which calls are locked is as it was: %s", error)
                continue
            if locked != before and self._locked is before:
                self._set(locked)

    async def lock(self, component: Component) -> None:
        """Halt a component, also after a restart. What it has begun goes on. Raises Unavailable."""
        await self._store.lockdowns.write(component)
        self._set(self._locked | {component})

    async def unlock(self, component: Component) -> None:
        """Let a component work again. Raises Unavailable."""
        await self._store.lockdowns.delete(component)
        self._set(self._locked - {component})

    @property
    def locked(self) -> frozenset[Component]:
        """The components that are locked."""
        return self._locked

    def check(self, component: Component, call: str) -> None:
        """Raise Refused for a call of a locked component; `call` is its name for the message."""
        if component in self._locked:
            raise Refused(
                f"{call}: an operator has locked {component.value} calls of the job manager; "
                f"`peloton admin unlock {component.value}` allows them again"
            )

    def gate(self, *components: Component) -> Gate:
        """Return a gate that is closed while any of the components is locked."""
        return Gate(self, components)

    async def wait_for_change(self) -> None:
        """Wait until the locked components change."""
        await self._changed.wait()

    def _set(self, locked: frozenset[Component]) -> None:
        self._locked = locked
        self._changed.set()
        self._changed = asyncio.Event()


class Gate:
    """Holds work back while components are locked."""

    def __init__(self, lockdown: Lockdown, components: Iterable[Component]) -> None:
        self._lockdown = lockdown
        self._components = frozenset(components)

    @property
    def closed(self) -> bool:
        """Whether one of the components is locked."""
        return not self._components.isdisjoint(self._lockdown.locked)

    async def opened(self) -> None:
        """Wait until none of the components is locked."""
        while self.closed:
            await self._lockdown.wait_for_change()
