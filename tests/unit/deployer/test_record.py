from __future__ import annotations

from dataclasses import replace

import pytest

from deployer.record import MOST_REVISIONS, Record, Started, from_json, to_json
from peloton.errors import NotFound, Refused

STARTED = Started("jobmgr", 1, "d", "host", "10.0.0.1", "agent", (31000, 31001), 1000.0)


def test_a_record_is_read_as_it_was_written() -> None:
    record = (
        Record(framework_id="f").with_wanted({"name": "a"}, 1.0, "me").with_instance("t.jobmgr.1", STARTED)
    )
    record = record.failed("jobmgr", "d", 2.0, "it ended").ending("t.jobmgr.1").whole()
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"format": 1}', b'{"format": 2}', b"\xff"])
def test_what_is_no_record_is_refused(text: bytes) -> None:
    with pytest.raises(Refused, match="the record of the installation"):
        from_json(text)


def test_the_same_installation_is_the_same_revision() -> None:
    once = Record().with_wanted({"name": "a"}, 1.0, "me")
    assert once.with_wanted({"name": "a"}, 2.0, "you") == once
    assert once.with_wanted({"name": "b"}, 2.0, "you").wanted == 2


def test_the_last_whole_revision_is_kept_however_many_fail() -> None:
    record = Record().with_wanted({"n": 0}, 0.0, "me").whole()
    for number in range(1, 3 * MOST_REVISIONS):
        record = record.with_wanted({"n": number}, 0.0, "me")
    assert len(record.revisions) == MOST_REVISIONS
    assert record.before() == 1
    assert record.revision(1).tree == {"n": 0}


def test_going_back_says_why_and_what_is_unknown_is_refused() -> None:
    record = Record().with_wanted({"n": 0}, 0.0, "me").whole().with_wanted({"n": 1}, 0.0, "me")
    back = record.failed("jobmgr", "d", 1.0, "it ended").wanting(1, "jobmgr failed")
    assert (back.wanted, back.went_back, back.failures, back.reached) == (1, "jobmgr failed", {}, False)
    with pytest.raises(NotFound, match="there is no revision 7 of the installation: it has 1, 2"):
        record.wanting(7)


def test_failures_count_while_they_follow_each_other() -> None:
    record = Record().failed("jobmgr", "d", 1.0, "a").failed("jobmgr", "d", 100.0, "b")
    assert (record.failures["jobmgr"].count, record.failures["jobmgr"].why) == (2, "b")
    assert record.failed("jobmgr", "other", 101.0, "c").failures["jobmgr"].count == 1
    assert record.failed("jobmgr", "d", 1000.0, "c").failures["jobmgr"].count == 1


def test_what_failed_is_tried_anew_where_there_is_nothing_to_go_back_to() -> None:
    tree = {"n": 0}
    failed = Record().with_wanted(tree, 0.0, "me").schema_failed("s", 1.0, "no such server", 1)
    failed = failed.failed("jobmgr", "d", 2.0, "it ended")
    again = failed.with_wanted(tree, 3.0, "me")
    assert (again.wanted, again.failures, again.schema_failure) == (1, {}, "")
    other = {"n": 1}
    counting = Record().with_wanted(tree, 0.0, "me").whole().with_wanted(other, 1.0, "me")
    counting = counting.failed("jobmgr", "d", 2.0, "it ended")
    assert counting.with_wanted(other, 3.0, "me") is counting, "interrupted deployers do not lose count"


def test_a_schema_has_the_tries_of_a_daemon() -> None:
    once = Record().with_wanted({"n": 0}, 0.0, "me").schema_failed("s", 1.0, "time-out", 2)
    assert once.schema_failure == ""
    assert once.schema_failed("s", 2.0, "time-out", 2).schema_failure == "time-out"
    assert once.with_schema("s").failures == {}


def test_a_record_that_zookeeper_cannot_hold_is_refused() -> None:
    with pytest.raises(Refused, match="ZooKeeper holds"):
        to_json(replace(Record(), went_back="x" * 1_000_000))
