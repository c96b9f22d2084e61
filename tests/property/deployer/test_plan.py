"""A world in which deployers, daemons and hosts fail at any step: what holds always, and in the end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from deployer.core.plan import Migrate, Plan, RollBack, Start, Stop, plan
from deployer.core.values import Failures, Gate, Group, Instance, Situation, Wanted

GATE = Gate(healthy_within=20, settle=1, canary=3, tries=2, longest_pause=8)
BROKEN = "broken"


@dataclass
class World:
    """What a record, Mesos and the daemons come to together."""

    wanted: Wanted
    revisions: dict[int, Wanted]
    random: Random
    now: float = 1000.0
    started: int = 0
    schema: str = ""
    converged: bool = False
    intended: set[str] = field(default_factory=set)
    """Stored, but never launched: the deployer died between the two."""
    untold: set[str] = field(default_factory=set)
    """Stored as ending, but never told."""
    instances: dict[str, Instance] = field(default_factory=dict)
    failures: dict[str, Failures] = field(default_factory=dict)
    went_back: bool = False

    def situation(self) -> Situation:
        return Situation(
            tuple(self.instances.values()), dict(self.failures), frozenset({self.schema}), "", self.converged
        )

    def turn(self, crash: bool) -> Plan:
        """One turn of a deployer, which may die within it."""
        found = plan(self.wanted, self.situation(), self.now)
        self.converged = self.converged or found.whole
        self.check(found)
        until = self.random.randrange(len(found.steps) + 1) if crash else len(found.steps)
        for number, step in enumerate(found.steps):
            self.store(step)
            if number >= until:  # all is stored first; then it died
                self.forget(step)
        return found

    def store(self, step: object) -> None:
        if isinstance(step, Migrate):
            self.schema = self.wanted.schema
        elif isinstance(step, RollBack):
            self.wanted = replace(self.revisions[step.revision], fallback=None)
            self.failures, self.converged, self.went_back = {}, False, True
        elif isinstance(step, Stop):
            if step.failed:
                self.fail(self.instances[step.instance], step.reason)
            self.instances[step.instance] = replace(self.instances[step.instance], ending=True, leads=False)
        elif isinstance(step, Start):
            group = next(each for each in self.wanted.groups if each.name == step.group)
            live = [e for e in self.instances.values() if e.group == step.group and not e.ending]
            assert len(live) <= group.count, "one more than are wanted at most"
            self.started += 1
            name = f"{step.group}-{self.started}"
            self.instances[name] = Instance(name, step.group, group.digest, "host", self.now)
            self.last = name

    def forget(self, step: object) -> None:
        if isinstance(step, Stop):
            self.untold.add(step.instance)
        elif isinstance(step, Start):
            self.intended.add(self.last)

    def fail(self, instance: Instance, why: str) -> None:
        before = self.failures.get(instance.group)
        same = before is not None and before.digest == instance.digest
        count = before.count + 1 if before is not None and same else 1
        self.failures[instance.group] = Failures(instance.digest, count, self.now, why)

    def pass_time(self) -> None:
        """Daemons start, end, and elect leaders."""
        self.now += 1.0
        for name in [*self.intended]:  # Mesos knows none of them
            self.instances.pop(name, None)
        self.intended.clear()
        for name, each in list(self.instances.items()):
            if each.ending:
                if name in self.untold:
                    self.untold.discard(name)  # told again
                elif self.random.random() < 0.7:
                    del self.instances[name]
            elif each.digest == BROKEN:
                if self.random.random() < 0.5:
                    del self.instances[name]
                    self.fail(each, "it ended")
            elif each.healthy_since is None and self.random.random() < 0.6:
                self.instances[name] = replace(each, healthy_since=self.now)
        self.elect()

    def elect(self) -> None:
        for group in {each.group for each in self.instances.values()}:
            there = [e for e in self.instances.values() if e.group == group and not e.ending]
            healthy = [each for each in there if each.healthy_since is not None]
            if healthy and not any(each.leads for each in there) and self.random.random() < 0.8:
                chosen = self.random.choice(healthy)
                self.instances[chosen.id] = replace(chosen, leads=True)

    def lose(self) -> None:
        """A host dies with a daemon."""
        if self.instances:
            del self.instances[self.random.choice(sorted(self.instances))]

    # What must hold.

    def healthy(self, group: str) -> int:
        there = (each for each in self.instances.values() if each.group == group and not each.ending)
        return sum(each.healthy_since is not None for each in there)

    def check(self, found: Plan) -> None:
        """Check a plan before it is carried out."""
        for step in found.steps:
            if not isinstance(step, Stop):
                continue
            ends = self.instances[step.instance]
            group = next((each for each in self.wanted.groups if each.name == step.group), None)
            if ends.healthy_since is None or group is None:
                continue
            assert self.healthy(step.group) - 1 >= group.count, (step, self.instances)
            assert not any(each.ending for each in self.instances.values()), "one after another"
            if ends.leads:
                rest = [e for e in self.instances.values() if e.group == step.group and e.id != ends.id]
                same = [e for e in rest if not e.ending and e.digest == ends.digest and e.healthy_since]
                assert not same, "followers before the leader"
        stops = [step for step in found.steps if isinstance(step, Stop) and not step.failed]
        assert len(stops) <= 1


def revision(number: int, digests: list[str], counts: list[int], fallback: int | None = None) -> Wanted:
    names = ("hostmgr", "resmgr", "jobmgr")
    groups = tuple(
        Group(name, count, digest, led=True)
        for name, count, digest in zip(names, counts, digests, strict=True)
    )
    return Wanted(number, groups, GATE, "schema", fallback)


def run(world: World, turns: int, crashes: float = 0.0, losses: float = 0.0) -> Plan:
    found = Plan()
    for _ in range(turns):
        found = world.turn(world.random.random() < crashes)
        if found.whole:
            return found
        if world.random.random() < losses:
            world.lose()
        world.pass_time()
    return found


def installed(random: Random, counts: list[int]) -> World:
    first = revision(1, ["a", "a", "a"], counts)
    world = World(first, {1: first}, random)
    assert run(world, 100).whole
    return world


SEEDS = st.integers(0, 2**32)
"""Of fair chance: drawn by hypothesis itself, a deployer might die each time."""
COUNTS = st.lists(st.integers(1, 3), min_size=3, max_size=3)


@given(SEEDS, COUNTS, st.lists(st.sampled_from("ab"), min_size=3, max_size=3))
@settings(max_examples=150, deadline=None)
def test_a_change_comes_about_though_deployers_and_hosts_die(
    seed: int, counts: list[int], digests: list[str]
) -> None:
    random = Random(seed)
    world = installed(random, counts)
    world.wanted, world.converged = revision(2, digests, counts, 1), False
    run(world, 60, crashes=0.4, losses=0.05)
    found = run(world, 400)
    assert found.whole, found
    assert not world.went_back
    for group in world.wanted.groups:
        live = [each for each in world.instances.values() if each.group == group.name]
        assert [each.digest for each in live] == [group.digest] * group.count


@given(SEEDS, COUNTS, st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_a_version_that_does_not_start_goes_back_and_ends_nothing_that_serves(
    seed: int, counts: list[int], which: int
) -> None:
    random = Random(seed)
    world = installed(random, counts)
    before = {each.id for each in world.instances.values() if each.group == world.wanted.groups[which].name}
    digests = ["b", "b", "b"]
    digests[which] = BROKEN
    world.wanted, world.converged = revision(2, digests, counts, 1), False
    for _ in range(400):
        found = world.turn(random.random() < 0.2)
        assert before <= {each.id for each in world.instances.values() if not each.ending}
        if found.whole:
            break
        world.pass_time()
    assert world.went_back and found.whole, found
    assert {each.digest for each in world.instances.values()} == {"a"}


@given(SEEDS, COUNTS, COUNTS)
@settings(max_examples=100, deadline=None)
def test_numbers_change(seed: int, counts: list[int], later: list[int]) -> None:
    random = Random(seed)
    world = installed(random, counts)
    world.wanted, world.converged = revision(2, ["a", "b", "a"], later, 1), False
    assert run(world, 400, crashes=0.2).whole
    for group in world.wanted.groups:
        assert sum(each.group == group.name for each in world.instances.values()) == group.count
