"""What is shown again and again: the whole terminal, redrawn; elsewhere text after text."""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, Protocol

from peloton.cli.failures import CallFailed
from peloton.cli.session import Session
from peloton.client.discovery import NoLeader
from peloton.model.amounts import duration
from peloton.model.plural import plural

GAP = "   "
"""Between the parts of the head line."""
RETRY_SECONDS = 120.0
"""How long a failing read is repeated where nobody sits before a terminal."""
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""To the other screen; no cursor; long lines are cut, not wrapped."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"


class Screen(Protocol):
    """Shows texts, each in the place of the one before."""

    live: bool
    """Whether somebody sees it and may press keys."""

    def draw(self, text: str) -> None:
        """Show a text."""
        ...

    def pause(self, seconds: float) -> str:
        """Wait for so long, or until a key is pressed; return the key or nothing."""
        ...


class FullScreen:
    """The whole terminal."""

    live = True

    def __init__(self, keys: IO[str], out: IO[str]) -> None:
        self._keys = keys
        self._out = out

    def draw(self, text: str) -> None:
        """Redraw the screen with as many lines as it has."""
        height = shutil.get_terminal_size().lines
        lines = text.splitlines()
        if len(lines) > height:
            lines[height - 1 :] = [f"… {plural(len(lines) - height + 1, 'more line')}"]
        self._out.write("\x1b[H" + "\n".join(f"{line}\x1b[K" for line in lines) + "\x1b[J")
        self._out.flush()

    def pause(self, seconds: float) -> str:
        """Wait for a key."""
        ready, _, _ = select.select([self._keys], [], [], seconds)
        return os.read(self._keys.fileno(), 1).decode(errors="replace") if ready else ""


class PlainScreen:
    """Any other output: each text below the one before."""

    live = False

    def __init__(self, out: IO[str], sleep: Callable[[float], object] = time.sleep) -> None:
        self._out = out
        self._sleep = sleep
        self._drawn = False

    def draw(self, text: str) -> None:
        """Print the text, below a blank line."""
        print(f"\n{text}" if self._drawn else text, file=self._out, flush=True)
        self._drawn = True

    def pause(self, seconds: float) -> str:
        """Wait."""
        self._sleep(seconds)
        return ""


@contextmanager
def opened(keys: IO[str] | None = None, out: IO[str] | None = None) -> Iterator[Screen]:
    """Take the terminal, and give it back as it was; without a terminal return a PlainScreen."""
    source, target = keys or sys.stdin, out or sys.stdout
    if not (source.isatty() and target.isatty()):
        yield PlainScreen(target)
        return
    import termios
    import tty

    saved = termios.tcgetattr(source)
    tty.setcbreak(source)
    target.write(_ENTER)
    try:
        yield FullScreen(source, target)
    finally:
        target.write(_LEAVE)
        target.flush()
        termios.tcsetattr(source, termios.TCSADRAIN, saved)


def watch(session: Session, title: str, seconds: float, run: Callable[[], Any]) -> int:
    """Show what `run` prints, again and again, until `q` is pressed. Raise what it raises.

    A daemon that does not answer is waited for: for RETRY_SECONDS where there is no terminal.
    """
    with opened() as screen:
        return repeat(screen, lambda: collected(session, run), title, seconds)


def repeat(
    screen: Screen,
    read: Callable[[], str],
    title: str,
    seconds: float,
    *,
    times: int = 0,
    on_key: Callable[[str], object] = lambda key: None,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Draw what `read` returns every `seconds`: `times` times (0: without end), or until `q`."""
    answered, shown, drawn = clock(), "", 0
    while True:
        note = ""
        try:
            shown, answered, drawn = read(), clock(), drawn + 1
        except (CallFailed, NoLeader) as failure:
            lasting = isinstance(failure, CallFailed) and not failure.transient
            if lasting or (not screen.live and clock() - answered > RETRY_SECONDS):
                raise
            note = f"(not up to date: {failure})"
        screen.draw(_page(shown, note, title, seconds) if screen.live else note or shown)
        if times and drawn >= times:
            return 0
        key = screen.pause(seconds)
        if key in ("q", "Q", "\x04"):
            return 0
        if key:
            on_key(key)


def _page(text: str, note: str, title: str, seconds: float) -> str:
    parts = [*title.split(GAP), f"every {duration(seconds)}", time.strftime("%H:%M:%S"), "q: leave"]
    head = wrapped([*parts, *([note] if note else [])], shutil.get_terminal_size().columns)
    return "\n".join([*head, "", text])


def wrapped(parts: Sequence[str], columns: int) -> list[str]:
    """Return parts of a line in as many lines as a terminal needs: what is longer than it would be cut."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(GAP) + len(part) <= columns:
            lines[-1] += GAP + part
        else:
            lines.append(part)
    return lines


def collected(session: Session, run: Callable[[], Any]) -> str:
    """Return what `run` prints by the session."""
    texts: list[str] = []
    session.write = texts.append
    try:
        run()
    finally:
        session.write = None
    return "\n".join(texts)
