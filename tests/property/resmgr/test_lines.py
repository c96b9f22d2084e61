"""Lines of gangs and deadlines against plain models of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resmgr.core.state import line
from resmgr.core.state.deadlines import Deadlines
from resmgr.core.state.entities import Gang
from resmgr.core.state.line import Line
from tests.unit.resmgr.test_queues import gang

MOST = 12
GANGS = tuple(gang(number) for number in range(MOST))
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "first", "all", "remove", "pop"]), st.integers(0, MOST - 1)),
    max_size=80,
)


@given(STEPS, st.sampled_from([0, 2, 64]))
def test_a_line_is_a_list(steps: list[tuple[str, int]], few: int) -> None:
    before, line._FEW = line._FEW, few
    try:
        _same(steps)
    finally:
        line._FEW = before


def _same(steps: list[tuple[str, int]]) -> None:
    real, model = Line(), list[Gang]()
    for step, number in steps:
        each = GANGS[number]
        if step == "pop" and model:
            assert real.pop() is model.pop(0)
        elif step == "remove" and each in model:
            real.remove(each)
            model.remove(each)
        elif step == "add" and each not in model:
            real.add(each)
            model.append(each)
        elif step == "first" and each not in model:
            real.add_first(each)
            model.insert(0, each)
        elif step == "all":
            new = [other for other in GANGS[number : number + 4] if other not in model]
            real.add_all(new)
            model += new
        assert list(real) == model and len(real) == len(model)
        assert next(iter(real.listed), None) is next(iter(model), None), "the first one has not left"


TIMES = st.sampled_from([1.0, 2.0, 3.0, 5.0])
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, MOST - 1), TIMES),
        st.tuples(st.just("cancel"), st.integers(0, MOST - 1), TIMES),
        st.tuples(st.just("due"), st.integers(1, 5), TIMES),
    ),
    max_size=80,
)


@given(MOVES)
def test_each_deadline_comes_once_and_in_time(moves: list[tuple[str, int, float]]) -> None:
    real, model = Deadlines(), dict[Gang, float]()
    for step, number, when in moves:
        if step == "set":
            real.set(GANGS[number], when)
            model[GANGS[number]] = when
        elif step == "cancel":
            real.cancel(GANGS[number])
            model.pop(GANGS[number], None)
        else:
            found = real.due(when, number)
            due = sorted(time for time in model.values() if time <= when)
            assert [model.pop(each) for each in found if isinstance(each, Gang)] == due[:number]
        assert len(real) == len(model)
        assert real.next() == min(model.values(), default=None)
    for each in GANGS:
        real.cancel(each)
