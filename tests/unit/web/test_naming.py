"""Jobs and runs that texts name by their ids are shown by their names."""

from __future__ import annotations

from peloton.web.formats import marked
from peloton.web.naming import jobs_in, named

ONE, OTHER = "0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def test_jobs_and_runs_are_named_with_links() -> None:
    text = f"preempted: {ONE}-0-1 of priority 900 waits; waits until job {OTHER} has succeeded"
    assert jobs_in([text, "no job at all"]) == {ONE, OTHER}
    assert named(text, {ONE: "finetune", OTHER: "nightly"}) == [
        ("preempted: ", ""),
        ("instance 0 of finetune", f"/jobs/{ONE}/instances/0"),
        (" of priority 900 waits; waits until ", ""),
        ("nightly", f"/jobs/{OTHER}"),
        (" has succeeded", ""),
    ]


def test_a_job_of_which_no_name_is_known_keeps_its_id() -> None:
    assert named(f"job {ONE}", {ONE: ""}) == [(f"job {ONE}", f"/jobs/{ONE}")]
    assert named(f"{ONE}-12-3 ended", {}) == [
        (f"instance 12 of job {ONE}", f"/jobs/{ONE}/instances/12"),
        (" ended", ""),
    ]


def test_ids_of_other_things_stay() -> None:
    for text in ("", f"pool {ONE} is gone", f"agent {ONE}-S2", "<b>job</b> x"):
        assert "".join(part for part, _ in named(text, {OTHER: "wrong"})) == text
        assert not jobs_in([text])


def test_an_id_alone_is_named_where_it_is_known_to_be_that_of_a_job() -> None:
    assert named(f"behind {ONE}", {ONE: "mill"}) == [("behind ", ""), ("mill", f"/jobs/{ONE}")]


def test_commands_stand_between_backquotes() -> None:
    assert marked("see `peloton status` first") == [
        ("see ", False),
        ("peloton status", True),
        (" first", False),
    ]
    assert marked("`a`") == [("a", True)]
    assert marked("one ` only") == [("one ` only", False)]
