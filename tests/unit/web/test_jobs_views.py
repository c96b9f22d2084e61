from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.present.accounts import cpu_hint, held_and_used, memory_hint, peak_text
from peloton.private.resmgr.explain import explain_pb2
from peloton.web.formats import sentence
from peloton.web.views.jobs.actions import actions, preview
from peloton.web.views.jobs.counts import NOT_CREATED, counts
from peloton.web.views.jobs.job import job_head
from peloton.web.views.jobs.search import JobSearch
from peloton.web.views.jobs.versions import compare
from peloton.web.views.jobs.why import Waiting, jobs_named, linked, share_row
from peloton.web.views.jobs.workflow import workflow
from peloton.web.views.shared.timeline import NARROWEST, WIDTH, Lane, Span, timeline

from .jobs_cluster import VERSION, job_info, workflow_info

NOW = 1_700_000_000.0
STATES = stateless_pb2.WorkflowState


@given(
    st.lists(
        st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)).map(lambda pair: (NOW - max(pair), NOW - min(pair))),
        min_size=1,
        max_size=20,
    )
)
def test_bars_stay_within_the_time_line(spans: list[tuple[float, float]]) -> None:
    drawn = timeline([Lane("a", "", [Span("RUNNING", *span, "")]) for span in spans], NOW)
    assert drawn is not None
    for row in drawn.rows:
        for bar in row.bars:
            assert 0 <= bar.x <= WIDTH - NARROWEST + 0.01
            assert bar.x + bar.width <= WIDTH + 0.02
    assert all(0 <= tick.x <= WIDTH + 0.01 for tick in drawn.ticks)
    assert len(drawn.ticks) <= 8


def test_short_times_have_ticks_below_a_second() -> None:
    drawn = timeline([Lane("a", "", [Span("RUNNING", NOW + 0.2, NOW + 1.7, "")])], NOW + 2)
    assert drawn is not None
    assert [tick.text for tick in drawn.ticks] == ["22:13:20.5", "22:13:21.0", "22:13:21.5"]
    assert timeline([Lane("a", "", [])], NOW) is None


def test_what_took_a_moment_fills_its_time_line() -> None:
    drawn = timeline([Lane("a", "", [Span("FAILED", NOW + 0.04, NOW + 0.1, "")])], NOW + 600)
    assert drawn is not None
    assert drawn.end - drawn.start == pytest.approx(0.1)
    assert drawn.rows[0].bars[0].width > WIDTH / 2
    seconds = [tick.text.rpartition(":")[2].partition(".")[2] for tick in drawn.ticks]
    assert seconds == ["04", "06", "08", "10", "12", "14"]


def test_a_bar_of_a_pool_shows_what_is_held_beside_a_demand_of_many_times_that() -> None:
    row = share_row(explain_pb2.Share(pool="/a", kind="cpu", allocation=2, entitlement=2, demand=100_000))
    assert row.held == row.due == pytest.approx(0.8)
    assert row.held + row.wanted == pytest.approx(1)
    empty = share_row(explain_pb2.Share(pool="/a", kind="gpu"))
    assert (empty.held, empty.wanted) == (0, 0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(7200, "2 core hours"), (90, "90 core seconds"), (0.001, "less than 0.01 core seconds")],
)
def test_what_was_held_is_shown_in_a_unit_that_fits(seconds: float, text: str) -> None:
    assert held_and_used({"cpu": seconds, "gpu": 0}) == [("cpu", text)]


def test_what_was_used_stands_beside_what_was_held() -> None:
    usage = {
        "cpu": 7200.0,
        "cpu_used": 1800.0,
        "memory": 1024.0 * 400,
        "memory_used": 0.0,
        "memory_peak": 600.0,
    }
    assert held_and_used(usage) == [
        ("cpu", "2 core hours, used 0.5 core hours (25%)"),
        ("memory", "0.11 GB hours, used less than 0.01 GB hours (0%)"),
    ]
    assert peak_text(usage) == "600 MB" and peak_text({}) == ""
    more = held_and_used({"cpu": 288.0, "cpu_used": 576.0})
    assert more == [("cpu", "0.08 core hours, used 0.16 core hours (200%)")], "in one unit"


def test_what_is_too_little_to_be_divided_by_has_no_percentage() -> None:
    assert held_and_used({"cpu": 0.005, "cpu_used": 0.04}) == [
        ("cpu", "less than 0.01 core seconds, used 0.04 core seconds")
    ]


@pytest.mark.parametrize(
    ("asked", "peak", "hint"),
    [
        (4096, 600, "asks for 4 GB, peaked at 600 MB"),
        (4096, 2049, ""),
        (300, 60, ""),
        (4096, 0, ""),
    ],
)
def test_far_more_memory_than_was_needed_is_worth_a_hint(asked: float, peak: float, hint: str) -> None:
    assert memory_hint(asked, peak) == hint


@pytest.mark.parametrize(
    ("asked", "mean", "seconds", "hint"),
    [
        (4, 0.3, 3600, "asks for 4 cores, used 0.3 in the mean of the last hour"),
        (4, 0.3, 1234, "asks for 4 cores, used 0.3 in the mean of the last 20 min 30 s"),
        (1, 0.04, 3600, "asks for 1 core, used 0.04 in the mean of the last hour"),
        (1, 0.0004, 3600, "asks for 1 core, used less than 0.01 in the mean of the last hour"),
        (4, 0.3, 300, ""),
        (4, 2.1, 3600, ""),
        (0.5, 0.1, 3600, ""),
        (4, 0, 3600, ""),
    ],
)
def test_far_more_cores_than_are_used_are_worth_a_hint(
    asked: float, mean: float, seconds: float, hint: str
) -> None:
    assert cpu_hint(asked, mean, seconds) == hint


def test_instances_that_are_not_created_yet_are_counted() -> None:
    assert counts({"RUNNING": 2, "FAILED": 0}, 5) == [("RUNNING", 2), (NOT_CREATED, 3)]


@pytest.mark.parametrize(
    ("state", "looks"),
    [
        ("ROLLING_FORWARD", "done done now left left"),
        ("SUCCEEDED", "done done left left left"),
    ],
)
def test_batches_are_drawn_as_they_go(state: str, looks: str) -> None:
    found = workflow(workflow_info(state=STATES.Value(f"WORKFLOW_STATE_{state}")))
    assert found is not None
    assert [cell.look for cell in found.cells] == looks.split()


def test_a_workflow_of_more_batches_than_can_be_drawn_is_a_bar_alone() -> None:
    found = workflow(workflow_info(num_instances_remaining=100_000))
    assert found is not None
    assert (found.batches, found.cells) == (100_002, ())


def _preview(key: str, **of: object) -> list[str]:
    job = job_info(**of)  # type: ignore[arg-type]
    head, flow = job_head(job, VERSION, {}), workflow(workflow_info())
    action = next(each for each in actions(head, flow) if each.key == key)
    shown = preview(action, head, flow, None, job.config)
    return [*shown.effects, *shown.notes]


def test_a_preview_says_what_stays_and_what_ends() -> None:
    lines = _preview("stop", stats={"RUNNING": 1, "PENDING": 2, "SUCCEEDED": 1, "FAILED": 1})
    assert lines[0].startswith("1 instance on hosts will be killed")
    assert "2 waiting instances will not start" in lines
    assert "2 instances ended already and stay as they are" in lines
    assert "the update that is under way ends" in lines
    assert not [line for line in _preview("stop", stats={"RUNNING": 5}) if "ended already" in line]
    assert not [line for line in _preview("stop", stats={"FAILED": 5}) if "will be killed" in line]


def test_a_search_for_services_that_crash_loop() -> None:
    search = JobSearch.of(QueryParams("crash_looping=1"))
    assert (search.url, search.narrow, search.detailed) == ("/jobs?crash_looping=1", True, False)
    assert search.request(0).spec.crashLooping
    assert not JobSearch().request(0).spec.crashLooping


def test_a_restart_says_that_it_starts_what_is_stopped() -> None:
    lines = _preview("restart", stats={"KILLED": 5}, goalState=job_pb2.KILLED)
    assert lines[0] == "5 stopped instances will be started with a new run each"
    lines = _preview("restart", stats={"RUNNING": 2, "KILLED": 1})
    assert "1 stopped instance among them will be started as well" in lines
    stopped = job_head(job_info(stats={"KILLED": 5}, goalState=job_pb2.KILLED), VERSION, {})
    assert {each.key: each.refused for each in actions(stopped, None)}["restart"] == ""


def test_a_preview_without_the_pool_tells_amounts_that_are_not_known() -> None:
    head = job_head(job_info(), VERSION, {})
    action = actions(head, None)[1]
    shown = preview(action, head, None, None, job_info().config)
    assert [(each.change, each.before) for each in shown.pool] == [
        ("−6 cores", "unknown"),
        ("−1.5 GB", "unknown"),
    ]


def test_actions_of_a_batch_job_that_has_ended_are_all_refused() -> None:
    head = job_head(job_info(kind=job_pb2.BATCH, state=job_pb2.SUCCEEDED), VERSION, {})
    assert all(each.refused for each in actions(head, None))


def test_texts_are_compared_line_by_line() -> None:
    found = compare("a\nb\nc\n", "a\nB\nc\nd\n")
    assert (found.added, found.removed, found.same) == (2, 1, False)
    assert [line.kind for line in found.lines if line.kind != "same"] == ["removed", "added", "added"]
    assert compare("a\n", "a\n").same


def test_a_sentence_begins_with_a_capital_letter_and_keeps_the_others() -> None:
    assert sentence("raise sla.maximumRunningInstances of /A") == "Raise sla.maximumRunningInstances of /A"
    assert sentence("") == ""


def test_a_run_that_others_wait_for_is_named_as_people_name_it() -> None:
    one, other = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"
    waits = Waiting("PENDING", f"behind {one}-10-1, the head, or {other}-2-3", 1, "")
    assert jobs_named([waits]) == {one, other}
    assert linked(waits, {one: "mill"}).parts == [
        ("behind ", ""),
        ("instance 10 of mill", f"/jobs/{one}/instances/10"),
        (", the head, or ", ""),
        (f"instance 2 of job {other}", f"/jobs/{other}/instances/2"),
    ]
    assert linked(Waiting("PENDING", "no host", 1, ""), {}).parts == [("no host", "")]
