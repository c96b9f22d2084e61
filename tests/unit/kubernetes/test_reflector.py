"""List-then-watch as a pure core."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.kubernetes.reflector import (
    Changed,
    Ended,
    Event,
    Failed,
    GiveUp,
    Listed,
    ReadPage,
    Received,
    Reflector,
    Removed,
    Replaced,
    Step,
    UnexpectedEvent,
    Watch,
)


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def listed(*events: Event) -> Reflector:
    core = Reflector()
    assert core.start() == ReadPage()
    core.on(Listed([thing("a", 3)], "5"))
    for each in events:
        core.on(each)
    return core


def test_pages_are_one_list() -> None:
    core = Reflector()
    core.start()
    assert core.on(Listed([thing("a", 1)], "4", "next")) == Step(instruction=ReadPage("next"))
    step = core.on(Listed([thing("b", 2)], "4"))
    assert step == Step(Replaced([thing("a", 1), thing("b", 2)]), Watch("4"))


def test_changes_in_order() -> None:
    core = listed()
    assert core.on(Received("ADDED", thing("b", 6))) == Step(Changed(thing("b", 6)))
    assert core.on(Received("MODIFIED", thing("b", 7))) == Step(Changed(thing("b", 7)))
    assert core.on(Received("DELETED", thing("b", 8))) == Step(Removed(thing("b", 8)))
    assert core.version == "8"


def test_a_bookmark_moves_the_version_only() -> None:
    core = listed()
    assert core.on(Received("BOOKMARK", thing("", 40))) == Step()
    assert core.on(Ended()) == Step(instruction=Watch("40"))


def test_a_watch_that_is_cut_goes_on_where_it_was() -> None:
    core = listed(Received("ADDED", thing("b", 6)))
    assert core.on(Failed(0, "reset")) == Step(instruction=Watch("6"))
    core.on(Received("ADDED", thing("c", 9)))
    assert core.on(Failed(0, "reset")) == Step(instruction=Watch("9")), "what came in between counts anew"


def test_a_version_that_is_too_old_means_a_new_list() -> None:
    core = listed()
    assert core.on(Failed(410, "Expired")) == Step(instruction=ReadPage())
    assert core.on(Listed([thing("b", 90)], "99")) == Step(Replaced([thing("b", 90)]), Watch("99"))


def test_a_version_that_expires_while_the_watch_is_cut() -> None:
    core = listed(Failed(0, "cut"))
    assert core.on(Failed(410, "Expired")) == Step(instruction=ReadPage()), "it is an answer"


def test_a_server_that_forgets_everything_at_once_is_given_up() -> None:
    core = listed()
    for _ in range(3):
        assert core.on(Failed(410, "Expired")) == Step(instruction=ReadPage())
        core.on(Listed([], "9"))
    assert core.on(Failed(410, "Expired")) == Step(instruction=GiveUp("Expired"))


def test_a_page_that_is_too_old_means_the_list_from_its_begin() -> None:
    core = Reflector()
    core.start()
    core.on(Listed([thing("a", 1)], "4", "next"))
    assert core.on(Failed(410, "Expired")) == Step(instruction=ReadPage())
    step = core.on(Listed([thing("b", 2)], "9"))
    assert step.change == Replaced([thing("b", 2)]), "pages of two lists are not mixed"


def test_a_server_that_does_not_answer_is_given_up() -> None:
    core = listed()
    core.on(Failed(0, "refused"))
    assert core.on(Failed(0, "refused again")) == Step(instruction=GiveUp("refused again"))
    with pytest.raises(UnexpectedEvent):
        core.on(Ended())


@pytest.mark.parametrize("event", [Ended(), Received("ADDED", thing("a", 1))])
def test_events_that_nobody_waits_for(event: Event) -> None:
    core = Reflector()
    core.start()
    with pytest.raises(UnexpectedEvent):
        core.on(event)
    with pytest.raises(UnexpectedEvent):
        core.start()


NAMES = st.sampled_from("abcd")


@given(
    st.lists(st.tuples(st.sampled_from(["put", "remove", "cut", "compact", "bookmark"]), NAMES), max_size=30)
)
def test_what_it_shows_is_what_there_is(moves: list[tuple[str, str]]) -> None:
    """Whatever is changed, cut and forgotten: after the last event, the follower has what the server has."""
    world = {"a": thing("a", 1)}
    history: list[tuple[int, str, dict[str, Any]]] = []
    version, compacted, sent = 1, 0, 1
    shown: dict[str, Any] = {}
    core = Reflector()
    core.start()

    def take(step: Step) -> None:
        if isinstance(step.change, Replaced):
            shown.clear()
            shown.update((each["metadata"]["name"], each) for each in step.change.objects)
        elif isinstance(step.change, Changed):
            shown[step.change.object["metadata"]["name"]] = step.change.object
        elif isinstance(step.change, Removed):
            shown.pop(step.change.object["metadata"]["name"], None)

    def relist() -> int:
        take(core.on(Listed(list(world.values()), str(version))))
        return version

    sent = relist()
    for kind, name in [*moves, ("cut", "a")]:
        if kind in ("put", "remove"):
            version += 1
            gone = world.pop(name, None) if kind == "remove" else None
            if kind == "put":
                world[name] = thing(name, version)
                history.append((version, "MODIFIED", world[name]))
            elif gone is not None:
                history.append(
                    (version, "DELETED", {"metadata": {**gone["metadata"], "resourceVersion": str(version)}})
                )
        elif kind == "compact":
            compacted = version
        else:
            if kind == "bookmark" and not [each for each in history if each[0] > sent]:
                take(core.on(Received("BOOKMARK", thing("", version))))
                sent = version
                continue
            step = core.on(Failed(0, "cut") if kind == "cut" else Ended())
            assert isinstance(step.instruction, Watch)
            sent = int(step.instruction.version)
            if sent < compacted:
                assert core.on(Failed(410, "Expired")).instruction == ReadPage()
                sent = relist()
            for at, event, wire in [each for each in history if each[0] > sent]:
                take(core.on(Received(event, wire)))
                sent = at
            take(core.on(Received("BOOKMARK", thing("", sent))))
    assert shown == world
