"""The checker passes a good history, and finds each single thing wrong with a bad one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.checker import check
from tests.faults.history import Call, End, Event, History, Instance, Job, Run
from tests.faults.leader_actions import LeaderAction

JOB = "11111111-2222-3333-4444-555555555555"
AMOUNTS = {"cpus": 1.0}


def run(instance: int, number: int = 1) -> Run:
    return Run(JOB, instance, number)


def agent(name: str = "A", cpus: float = 2.0) -> Event:
    return Event(0.0, "agent", agent=name, amounts={"cpus": cpus})


def launch(at: float, which: Run, on: str = "A", **changes: object) -> Event:
    return replace(Event(at, "launch", which, on, amounts=AMOUNTS), **changes)  # type: ignore[arg-type]


def update(at: float, which: Run, state: str, on: str = "A") -> Event:
    return Event(at, "update", which, on, state, state, f"{which}{state}", at)


def ack(at: float, which: Run, state: str) -> Event:
    return Event(at, "ack", which, "A", uuid=f"{which}{state}")


def delivered(at: float, which: Run, state: str) -> Event:
    return Event(at, "sent", which, "A", state)


def whole(which: Run, begin: float, end: float, state: str = "TASK_FINISHED", on: str = "A") -> list[Event]:
    return [
        launch(begin, which, on),
        update(begin, which, "TASK_RUNNING", on),
        update(end, which, state, on),
        ack(end, which, state),
    ]


def job(state: str, *instances: Instance, **stats: int) -> Job:
    return Job(state, len(instances), stats, dict(enumerate(instances)))


DONE = Instance("SUCCEEDED", 1)
CREATED = Call("create", JOB, 0.5, instances=2, max_failures=10, fails=True)
GOOD = History(
    [agent(), *whole(run(0), 1, 2), *whole(run(1), 1, 3)],
    [CREATED],
    End({JOB: job("SUCCEEDED", DONE, DONE, SUCCEEDED=2)}, []),
)


def rules(history: History) -> list[str]:
    return [violation.rule for violation in check(history).violations]


def ends(*instances: Instance, state: str = "RUNNING", live: list[tuple[Run, str]] | None = None) -> End:
    stats: dict[str, int] = {}
    for each in instances:
        stats[each.state] = stats.get(each.state, 0) + 1
    return End({JOB: job(state, *instances, **stats)}, live or [])


def test_a_good_history_has_no_violations() -> None:
    assert rules(GOOD) == []


def test_a_retry_after_the_first_run_has_ended_is_good() -> None:
    events = [agent(), *whole(run(0), 1, 2, "TASK_FAILED"), *whole(run(0, 2), 2, 3), *whole(run(1), 1, 3)]
    end = ends(Instance("SUCCEEDED", 2), DONE, state="SUCCEEDED")
    assert rules(replace(GOOD, events=sorted(events, key=lambda e: e.at), end=end)) == []


def test_a_missing_job_is_lost() -> None:
    assert rules(replace(GOOD, end=End({}, []))) == ["job lost"]


def test_what_is_left_behind_comes_back_or_breaks_is_told() -> None:
    left = replace(GOOD.end, undeleted=["job"], answers=["stop of job: INTERNAL"], left=["host0 is held"])
    found = rules(replace(GOOD, end=left))
    assert found == ["deletion lost", "internal error", "left behind"]


def test_an_update_that_left_no_instances_is_lost() -> None:
    more = Call("update", JOB, 2.0, instances=3)
    assert rules(replace(GOOD, calls=[CREATED, more])) == ["update lost"]


def test_a_missing_acknowledged_instance_is_lost() -> None:
    end = End({JOB: Job("SUCCEEDED", 2, {"SUCCEEDED": 1}, {0: DONE})}, [])
    assert "update lost" in rules(replace(GOOD, end=end))


def test_an_unanswered_update_may_be_applied_or_not() -> None:
    perhaps = Call("perhaps-update", JOB, 2.0, instances=3)
    assert rules(replace(GOOD, calls=[CREATED, perhaps])) == []
    events = sorted([*GOOD.events, *whole(run(2), 3, 4)], key=lambda event: event.at)
    three = ends(DONE, DONE, DONE, state="SUCCEEDED")
    assert rules(History(events, [CREATED, perhaps], three)) == []
    assert rules(History(events, [CREATED], three)) == ["update lost"]


def test_a_stopped_job_that_keeps_running_is_a_lost_kill() -> None:
    events = [agent(), *whole(run(0), 1, 2), launch(1, run(1)), update(1, run(1), "TASK_RUNNING")]
    end = ends(DONE, Instance("RUNNING", 1), live=[(run(1), "A")])
    assert rules(History(events, [CREATED, Call("stop", JOB, 3.0)], end)) == ["kill lost"]


def test_a_stopped_instance_is_not_launched_again() -> None:
    events = [agent(cpus=9.0), *whole(run(0), 1, 2), *whole(run(1), 1, 2)]
    stop, end = Call("stop", JOB, 3.0, stopped=(0,)), ends(Instance("SUCCEEDED", 3), DONE, state="SUCCEEDED")
    again = [*whole(run(0, 2), 4, 5, "TASK_FAILED"), *whole(run(0, 3), 6, 7)]
    assert rules(History([*events, *again], [CREATED, stop], end)) == ["kill undone"]
    once = ends(Instance("SUCCEEDED", 2), DONE, state="SUCCEEDED")
    assert rules(History([*events, *whole(run(0, 2), 4, 5)], [CREATED, stop], once)) == []


def test_a_stopped_instance_that_keeps_running_is_a_lost_kill() -> None:
    events = [agent(), launch(1, run(0)), update(1, run(0), "TASK_RUNNING"), *whole(run(1), 1, 2)]
    end = ends(Instance("RUNNING", 1), DONE, live=[(run(0), "A")])
    stop = Call("stop", JOB, 3.0, stopped=(0,))
    assert rules(History(events, [CREATED, stop], end)) == ["kill lost"]
    other = Call("stop", JOB, 3.0, stopped=(1,))
    assert rules(History(events, [CREATED, other], end)) == []


@pytest.mark.parametrize("stats", [{"SUCCEEDED": 1}, {"SUCCEEDED": 1, "FAILED": 1}, {"SUCCEEDED": 3}])
def test_counts_must_be_those_of_the_instances(stats: dict[str, int]) -> None:
    assert rules(replace(GOOD, end=End({JOB: job("SUCCEEDED", DONE, DONE, **stats)}, []))) == ["counts"]


def test_a_terminal_job_has_terminal_instances_only() -> None:
    end = ends(DONE, Instance("PENDING", 2), state="SUCCEEDED")
    assert rules(replace(GOOD, end=end)) == ["counts"]


def test_an_acknowledged_end_must_be_known() -> None:
    end = ends(Instance("KILLED", 1), DONE, state="KILLED")
    stop = Call("stop", JOB, 1.5, stopped=(0,))
    assert rules(replace(GOOD, calls=[CREATED, stop], end=end)) == ["status lost"]


def test_an_acknowledged_end_of_a_run_that_is_not_known() -> None:
    events = sorted([*GOOD.events, *whole(run(0, 2), 3, 4)], key=lambda event: event.at)
    assert rules(replace(GOOD, events=events)) == ["status lost", "unknown run"]


@pytest.mark.parametrize(("at", "wrong"), [(1.5, []), (2.5, ["status lost"])])
def test_an_acknowledged_end_of_a_lost_run_may_be_unknown(at: float, wrong: list[str]) -> None:
    events = sorted([*GOOD.events, delivered(at, run(0), "TASK_UNREACHABLE")], key=lambda event: event.at)
    end = ends(Instance("LOST", 1), DONE, state="FAILED")
    calls = [replace(CREATED, max_failures=0)]
    assert rules(replace(GOOD, events=events, calls=calls, end=end)) == wrong


def test_an_end_that_was_not_acknowledged_may_be_unknown() -> None:
    events = [event for event in GOOD.events if not (event.kind == "ack" and event.run == run(0))]
    end = ends(Instance("KILLED", 1), DONE, state="KILLED")
    stop = Call("stop", JOB, 1.5, stopped=(0,))
    assert rules(replace(GOOD, events=events, calls=[CREATED, stop], end=end)) == []


def test_a_launch_without_a_stored_run_is_a_violation() -> None:
    events = [*GOOD.events, launch(4, run(0, 2))]
    assert rules(replace(GOOD, events=events)) == ["unknown run"]


def test_success_without_a_run_that_finished() -> None:
    events = [event for event in GOOD.events if event.run != run(1)]
    assert rules(replace(GOOD, events=events)) == ["never ran"]


def test_a_live_run_of_an_ended_instance_is_an_orphan() -> None:
    assert rules(replace(GOOD, end=replace(GOOD.end, live=[(run(0), "A")]))) == ["orphan"]


def test_a_live_run_of_an_unknown_job_is_an_orphan() -> None:
    stray = Run("99999999-2222-3333-4444-555555555555", 0, 1)
    assert rules(replace(GOOD, end=replace(GOOD.end, live=[(stray, "A")]))) == ["orphan"]


def test_two_live_runs_of_an_instance() -> None:
    end = ends(Instance("RUNNING", 2), DONE, live=[(run(0, 1), "A"), (run(0, 2), "B")])
    events = [agent(), agent("B"), launch(1, run(0)), launch(2, run(0, 2), "B"), *whole(run(1), 1, 2)]
    assert rules(History(events, [CREATED], end)) == ["orphan", "live twice"]


def test_a_running_instance_without_a_live_run() -> None:
    events = [agent(), launch(1, run(0)), *whole(run(1), 1, 2)]
    assert rules(History(events, [CREATED], ends(Instance("RUNNING", 1), DONE))) == ["ghost"]


def overlapping(given_up: bool) -> History:
    lost = [delivered(1.5, run(0), "TASK_UNREACHABLE")] if given_up else []
    first, second = whole(run(0), 1, 4, "TASK_KILLED"), whole(run(0, 2), 2, 3, on="B")
    events = [agent(), agent("B"), *first, *lost, *second, *whole(run(1), 1, 2)]
    end = ends(Instance("SUCCEEDED", 2), DONE, state="SUCCEEDED")
    return History(sorted(events, key=lambda event: event.at), [CREATED], end)


def test_concurrent_runs_on_reachable_agents() -> None:
    assert rules(overlapping(given_up=False)) == ["ran twice at once"]


def test_concurrent_runs_after_the_first_agent_was_lost() -> None:
    verdict = check(overlapping(given_up=True))
    assert not verdict.violations
    assert len(verdict.unavoidable) == 1


def test_concurrent_runs_where_the_first_was_launched_after_its_agent_was_lost() -> None:
    early = [delivered(0.5, run(0), "TASK_GONE"), *overlapping(given_up=False).events]
    events = sorted(early, key=lambda event: event.at)
    assert rules(replace(overlapping(given_up=False), events=events)) == ["ran twice at once"]


def test_runs_end_with_a_dead_agent() -> None:
    history = overlapping(given_up=True)
    events = [event for event in history.events if event.state != "TASK_KILLED"]
    events = sorted([*events, Event(1.2, "dead", agent="A")], key=lambda event: event.at)
    assert not check(replace(history, events=events)).unavoidable


def test_an_overcommitted_host() -> None:
    events = [agent(cpus=1.5), *GOOD.events[1:]]
    both = sorted(events, key=lambda event: event.at)
    assert rules(replace(GOOD, events=both)) == ["over capacity"]


def test_ended_runs_free_their_resources() -> None:
    events = [agent(cpus=1.0), *whole(run(0), 1, 2), *whole(run(1), 2, 3)]
    assert rules(replace(GOOD, events=events)) == []


def test_a_port_used_twice() -> None:
    events = [replace(event, ports=(31000,)) if event.kind == "launch" else event for event in GOOD.events]
    assert rules(replace(GOOD, events=sorted(events, key=lambda event: event.at))) == ["port twice"]


def began(term: int, at: float, who: str = "") -> LeaderAction:
    return LeaderAction("term", "hostmgr", term, who or f"hostmgr{term}", at, at + 0.1)


def wrote(term: int, at: float, until: float) -> LeaderAction:
    return LeaderAction("write", "hostmgr", term, f"hostmgr{term}", at, until, "hosts.write")


def sent(kind: str, term: int, at: float, which: Run) -> LeaderAction:
    return LeaderAction(kind, "hostmgr", term, f"hostmgr{term}", at, at, str(which))


def with_actions(*actions: LeaderAction) -> History:
    """A good history, whose launch of instance 1 comes through at 1 s and a kill of it at 2.5 s."""
    events = [*GOOD.events, Event(2.5, "kill", run(1), "A")]
    return replace(
        GOOD, events=sorted(events, key=lambda e: e.at), actions=sorted(actions, key=lambda d: d.at)
    )


def test_successive_leaders_are_valid() -> None:
    first = [began(1, 0), sent("launch", 1, 0.9, run(1)), wrote(1, 1.5, 1.6)]
    second = [began(2, 2), wrote(2, 2.2, 2.3), sent("kill", 2, 2.4, run(1))]
    assert rules(with_actions(*first, *second)) == []


def test_roles_are_checked_independently() -> None:
    later = LeaderAction("term", "jobmgr", 9, "jobmgr9", 0, 0.1)
    assert rules(with_actions(began(1, 0), later, wrote(1, 1, 1.1))) == []


def test_a_write_begun_after_the_successor_leads() -> None:
    assert rules(with_actions(began(1, 0), began(2, 1), wrote(1, 1.2, 1.3))) == ["fenced leader acts"]


def test_a_write_in_flight_when_the_successor_leads() -> None:
    assert rules(with_actions(began(1, 0), wrote(1, 0.9, 5), began(2, 1))) == []


@pytest.mark.parametrize(("kind", "at"), [("launch", 0.9), ("kill", 2.4)])
def test_a_call_delivered_after_the_successor_leads(kind: str, at: float) -> None:
    call = sent(kind, 1, 0.2, run(1))
    assert rules(with_actions(began(1, 0), call, began(2, at - 0.2))) == ["fenced leader acts"]
    assert rules(with_actions(began(1, 0), call, began(2, 2.6))) == []


def test_a_call_that_the_successor_repeats_is_its_own() -> None:
    again = sent("kill", 2, 2.4, run(1))
    assert rules(with_actions(began(1, 0), sent("kill", 1, 0.2, run(1)), began(2, 2), again)) == []


def test_one_term_of_two_processes() -> None:
    assert rules(with_actions(began(1, 0, "hostmgrA"), began(1, 3, "hostmgrB"))) == ["two leaders"]


def test_a_term_that_begins_after_a_later_one() -> None:
    assert rules(with_actions(began(2, 0), began(1, 3))) == ["two leaders"]
