"""Only daemons are asked whose health may matter, and all of them where that decides."""

from __future__ import annotations

from dataclasses import dataclass, field

from deployer.health import Daemons, HealthWatch
from deployer.probes import Answer
from deployer.record import Started
from peloton.membership.interface import Role

WATCHED = 2.0
HEALTHY, ILL = Answer(True), Answer(False, "no hostmgr leads")


@dataclass
class World:
    """Daemons that answer what a test says."""

    now: float = 1000.0
    answers: dict[str, Answer] = field(default_factory=dict)
    elected: str = ""
    asked: list[str] = field(default_factory=list)

    async def ask(self, started: Daemons) -> dict[str, Answer]:
        self.asked = sorted(started)
        return {name: self.answers[name] for name in started}

    def is_elected(self, started: Started, role: Role | None) -> bool:
        return started.host == self.elected


def daemons(*names: str) -> Daemons:
    return {
        name: (Started("jobmgr", 1, "digest", name, "127.0.0.1", "agent", (1, 2), 0.0), Role.JOBMGR)
        for name in names
    }


async def looked(world: World, watch: HealthWatch, *names: str, everyone: bool = False) -> list[str]:
    """Look, and return who was asked."""
    world.asked = []
    await watch.look(daemons(*names), WATCHED, everyone)
    return world.asked


async def test_those_that_are_watched_or_ill_are_asked_each_time_and_others_now_and_then() -> None:
    world = World(answers={"a": HEALTHY, "b": ILL})
    watch = HealthWatch(world, lambda: world.now)
    assert await looked(world, watch, "a", "b") == ["a", "b"]
    world.now += 0.3
    assert await looked(world, watch, "a", "b") == ["a", "b"]
    assert watch.healthy_since == {"a": 1000.0}
    world.now += WATCHED
    assert await looked(world, watch, "a", "b") == ["a", "b"], "an answer of more than a second ago"
    world.now += 0.3
    assert await looked(world, watch, "a", "b") == ["b"]
    assert watch.answers == {"a": HEALTHY, "b": ILL}


async def test_everyone_is_asked_where_that_decides() -> None:
    world = World(answers={"a": HEALTHY, "b": HEALTHY})
    watch = HealthWatch(world, lambda: world.now)
    await looked(world, watch, "a", "b")
    world.now += WATCHED
    await looked(world, watch, "a", "b")
    world.answers["a"] = ILL
    assert await looked(world, watch, "a", "b") == []
    assert await looked(world, watch, "a", "b", everyone=True) == ["a", "b"]
    assert set(watch.healthy_since) == {"b"}


async def test_health_begins_anew_after_an_illness_and_a_jump_of_the_clock_hides_nothing() -> None:
    world = World(answers={"a": HEALTHY})
    watch = HealthWatch(world, lambda: world.now)
    await looked(world, watch, "a")
    world.answers["a"], world.now = ILL, 1010.0
    assert await looked(world, watch, "a") == ["a"]
    assert not watch.healthy_since
    world.answers["a"], world.now = HEALTHY, 1011.0
    await looked(world, watch, "a")
    assert watch.healthy_since == {"a": 1011.0}
    world.now = 500.0
    assert await looked(world, watch, "a") == ["a"]


async def test_a_change_of_the_leader_is_a_reason_to_ask() -> None:
    world = World(answers={"a": Answer(True, leads=True), "b": HEALTHY}, elected="a")
    watch = HealthWatch(world, lambda: world.now)
    await looked(world, watch, "a", "b")
    world.now += WATCHED
    await looked(world, watch, "a", "b")
    assert await looked(world, watch, "a", "b") == []
    world.elected, world.answers["a"] = "b", HEALTHY
    assert await looked(world, watch, "a", "b") == ["a", "b"]
    assert await looked(world, watch, "a", "b") == ["b"], "elected, and has not taken over yet"
    world.answers["b"] = Answer(True, leads=True)
    await looked(world, watch, "a", "b")
    assert await looked(world, watch, "a", "b") == []


async def test_those_that_are_not_given_are_forgotten() -> None:
    world = World(answers={"a": HEALTHY, "b": HEALTHY})
    watch = HealthWatch(world, lambda: world.now)
    await looked(world, watch, "a", "b")
    await looked(world, watch, "b")
    assert set(watch.answers) == set(watch.healthy_since) == {"b"}
