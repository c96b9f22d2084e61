"""Retry rules over drawn ends: as many runs as the rules grant, whoever leads."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from peloton.model.states import TaskState
from tests.unit.jobmgr_core.test_retry_rules import end, exited, leader, made, row

CODES = (1, 2, 3, 137)
rules = st.lists(
    st.fixed_dictionaries(
        {
            "exit_codes": st.lists(st.sampled_from(CODES), min_size=1, max_size=3),
            "hosts": st.sampled_from([[], ["h1"], ["h*"]]),
            "retries": st.integers(0, 3),
        }
    ),
    max_size=4,
)
ends = st.lists(
    st.tuples(st.sampled_from(CODES), st.sampled_from(["h1", "h2", "g1"]), st.booleans()),
    min_size=1,
    max_size=14,
)


@given(rules, ends, st.integers(0, 4), st.booleans())
def test_each_rule_grants_its_retries(
    drawn: list[dict[str, object]], ends: list[tuple[int, str, bool]], most: int, elsewhere: bool
) -> None:
    granted = [rule | {"another_host": elsewhere and bool(rule["retries"])} for rule in drawn]
    spec = made(*granted, max_failures=most)
    used: Counter[int] = Counter()
    others, avoided, task = 0, set[str](), row()
    at = leader(spec, task)
    for code, host, falls in ends:
        task = row(task.run, host, failure_count=task.failure_count, rule_ends=task.rule_ends)
        at = leader(spec, task)
        task = end(at, exited(code))
        number = _first(granted, code, host)
        if number is None:
            others += 1
            again = others < most
        else:
            used[number] += 1
            again = used[number] <= granted[number]["retries"]  # type: ignore[operator]
            avoided |= {host} if again and granted[number]["another_host"] else set()
        assert (task.state is TaskState.INITIALIZED) is again, task.message
        assert set(task.avoided_hosts) == avoided
        assert task.failure_count == others + used.total()
        if falls:
            at = leader(spec, task)
            at.run_cycle()
            assert at.task(0).run == task.run, "a new leader grants what the old one did"
        if not again:
            return


def _first(rules: list[dict[str, object]], code: int, host: str) -> int | None:
    for number, rule in enumerate(rules):
        hosts = rule["hosts"]
        on = not hosts or (host.startswith("h") and (hosts == ["h*"] or host == "h1"))
        if code in rule["exit_codes"] and on:  # type: ignore[operator]
            return number
    return None
