"""Replays a journal: a new core is given the recorded inputs, and must answer as the recorded one did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from peloton.errors import PelotonError
from simulator.recording.cores import CORES, answer_of, call_method
from simulator.recording.journal import Answered, Called, Changed, Made, Naming, outcome, read
from simulator.recording.texts import text_of


@dataclass(frozen=True, slots=True)
class Difference:
    """The first call whose answer, or state after it, is another one."""

    number: int
    call: str
    recorded: str
    replayed: str

    def __str__(self) -> str:
        at = next(
            (
                at
                for at, pair in enumerate(zip(self.recorded, self.replayed, strict=False))
                if pair[0] != pair[1]
            ),
            min(len(self.recorded), len(self.replayed)),
        )
        part = slice(max(0, at - 200), at + 200)
        return (
            f"call {self.number}, {self.call[:400]}\n"
            f"  recorded: …{self.recorded[part]}…\n  replayed: …{self.replayed[part]}…"
        )


@dataclass(slots=True)
class Replay:
    """What a replay has found."""

    core: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls by method, whose answers are equal."""
    states: int = 0
    """States that were compared."""
    decided: Counter[str] = field(default_factory=Counter)
    """Decisions in the answers, by the types of what was decided: instructions, gangs handed out, plans."""
    difference: Difference | None = None


class _Replayer:
    def __init__(self) -> None:
        self.found = Replay()
        self._naming: Naming | None = None
        self._core: Any = None
        self._call: Called | None = None
        self._answer: Any = None

    def find(self, name: Any) -> Any:
        assert self._naming is not None, "a journal begins with its core"
        return self._naming.find(name)

    def take(self, entry: Any) -> bool:
        """Take an entry; return whether all is equal so far."""
        match entry:
            case Made(core, args, kwargs):
                self.found.core = core
                self._core = CORES[core].root(*args, **kwargs)
                self._naming = CORES[core].naming(self._core)
            case Changed(value):
                assert self._naming is not None
                self._naming.change(value)
            case Called():
                self._call = entry
                self._answer = self._made_again(entry)
            case Answered():
                return self._compare(entry)
        return True

    def _made_again(self, call: Called) -> Any:
        assert self._naming is not None
        method: Callable[..., Any] = getattr(type(call.target), call.method)
        try:
            answer = call_method(method, call.target, *call.args, **call.kwargs)
        except (PelotonError, StopIteration) as error:
            return outcome(error)
        self._naming.note(answer)
        return answer

    def _compare(self, entry: Answered) -> bool:
        assert self._naming is not None and self._call is not None
        name, call = self._naming.name, self._call
        found = self.found
        number = found.calls.total() + 1
        shown = answer_of(self._answer)
        pairs = [(entry.text, text_of(shown, name))]
        if entry.state:
            found.states += 1
            pairs.append((entry.state, text_of(self._naming.state(), name)))
        for recorded, replayed in pairs:
            if recorded != replayed:
                text = f"{call.method}{text_of(call.args, name)}"
                found.difference = Difference(number, text, recorded, replayed)
                return False
        found.calls[call.method] += 1
        found.decided.update(_decisions(shown))
        return True


def _decisions(answer: Any) -> Counter[str]:
    """Return how many things of which types an answer has, or the type of what it is itself."""
    if is_dataclass(answer):
        return Counter([type(answer).__name__])
    each = answer[1] if isinstance(answer, tuple) and len(answer) == 4 else answer
    return Counter(type(one).__name__ for one in each) if isinstance(each, list | tuple) else Counter()


def replay(path: Path) -> Replay:
    """Replay a journal up to its end, or to the first difference. Raises OSError."""
    replayer = _Replayer()
    for entry in read(path, replayer.find):
        if not replayer.take(entry):
            break
    return replayer.found
