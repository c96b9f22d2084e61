"""A journal: each call of a core from outside, in order, with its arguments and a text of its answer.

It is a file of pickles with one memo, so that an object that comes again is the same object when it is read.
Objects that belong to the core itself are written by name.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, MappingView
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Protocol

from google.protobuf.descriptor_pool import Default
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from peloton.errors import PelotonError
from simulator.recording.texts import text_of

CALLS_PER_STATE = 100
"""The state of the core is noted, too, each time after this number of calls."""


class Naming(Protocol):
    """The objects of one core by name, and what its interpreter does to it without a call."""

    def name(self, value: Any) -> tuple[Any, ...] | None:
        """Return the name of an object of the core; None for any other value."""
        ...

    def find(self, name: tuple[Any, ...]) -> Any:
        """Return the object with a name."""
        ...

    def note(self, answer: Any) -> None:
        """Take notice of an answer: it may have objects that get names."""
        ...

    def changed_outside(self) -> Any:
        """Return what the interpreter sets itself."""
        ...

    def change(self, value: Any) -> None:
        """Set what the interpreter sets itself."""
        ...

    def state(self) -> Any:
        """Return what the core has decided, as far as it is in its memory."""
        ...


@dataclass(frozen=True, slots=True)
class Made:
    """The core begins."""

    core: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Called:
    """A call."""

    target: Any
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of the last call; `state` is that of the core, now and then."""

    text: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """What the interpreter has set since the last call."""

    value: Any


class Ids:
    """Ids without end that a journal can hold, in place of an iterator that draws them by chance."""

    def __init__(self, first: str) -> None:
        self._first = first
        self._drawn = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return another id."""
        self._drawn += 1
        return self._first if self._drawn == 1 else f"{self._first}-{self._drawn}"


Entry = Made | Called | Answered | Changed


class _Pickler(pickle.Pickler):
    def __init__(self, file: IO[bytes], naming: Naming) -> None:
        super().__init__(file, protocol=5)
        self._naming = naming
        self.by_name = False
        """Whether objects of the core are written by name: there are none before it is made."""

    def persistent_id(self, obj: Any) -> Any:
        """Return the name that stands for an object."""
        return self._naming.name(obj) if self.by_name else None

    def reducer_override(self, obj: Any) -> Any:
        """Have a message read by its class: by its name it is found only once its module is imported."""
        if isinstance(obj, Message):
            return _message, (
                obj.DESCRIPTOR.file.name,
                obj.DESCRIPTOR.full_name,
                obj.SerializePartialToString(),
            )
        return NotImplemented


def _message(file: str, name: str, encoded: bytes) -> Message:
    import_module(f"{file.removesuffix('.proto').replace('/', '.')}_pb2")
    found = GetMessageClass(Default().FindMessageTypeByName(name))()  # type: ignore[no-untyped-call]
    found.ParseFromString(encoded)
    return found


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], find: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._find = find

    def persistent_load(self, pid: Any) -> Any:
        """Return the object that a name stands for."""
        return self._find(pid)


class Journal:
    """Writes the calls of one core. Calls within a call are not from outside."""

    def __init__(self, path: Path, naming: Naming, made: Made, shown: Callable[[Any], Any]) -> None:
        """Begin a file. `shown` returns what of an answer is noted."""
        self._naming = naming
        self._shown = shown
        self._file = path.open("wb")
        self._pickler = _Pickler(self._file, naming)
        self._inside = False
        self._calls = 0
        self._outside = text_of(naming.changed_outside(), naming.name)
        self._write(made)
        self._pickler.by_name = True

    def _write(self, entry: Entry) -> None:
        self._pickler.dump(entry)
        self._file.flush()

    def run(self, target: Any, method: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Make a call, and write it with its answer, unless it is made by the core itself."""
        if self._inside:
            return call(*args, **kwargs)
        args = tuple(list(each) if self._is_view(each) else each for each in args)
        kwargs = {key: list(each) if self._is_view(each) else each for key, each in kwargs.items()}
        self._note_changes()
        self._write(Called(target, method, args, kwargs))
        self._inside = True
        try:
            answer = call(*args, **kwargs)
        except (PelotonError, StopIteration) as error:
            self._answer(outcome(error))
            raise
        finally:
            self._inside = False
        self._naming.note(answer)
        self._answer(answer)
        return answer

    def _is_view(self, value: Any) -> bool:
        """Return whether a value cannot be written as it is, but what it iterates over can."""
        if isinstance(value, Ids):
            return False
        return isinstance(value, Iterator | MappingView) and self._naming.name(value) is None

    def _note_changes(self) -> None:
        value = self._naming.changed_outside()
        text = text_of(value, self._naming.name)
        if text != self._outside:
            self._write(Changed(value))

    def _answer(self, answer: Any) -> None:
        naming = self._naming
        self._calls += 1
        due = not self._calls % CALLS_PER_STATE
        state = text_of(naming.state(), naming.name) if due else ""
        self._write(Answered(text_of(self._shown(answer), naming.name), state))
        self._outside = text_of(naming.changed_outside(), naming.name)


def outcome(error: Exception) -> Any:
    """Return an error as an answer; of the end of steps, what they return."""
    return ("end", error.value) if isinstance(error, StopIteration) else error


def read(path: Path, find: Callable[[Any], Any]) -> Iterator[Entry]:
    """Iterate over the entries of a journal, up to one that was not written whole.

    `find` returns the object of the core with a name. Journals are pickles: read none of others.
    """
    with path.open("rb") as file:
        unpickler = _Unpickler(file, find)
        while True:
            try:
                yield unpickler.load()
            except (EOFError, pickle.UnpicklingError):
                return
