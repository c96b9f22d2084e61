"""Schedules: the same in both APIs, and refused where they make no sense."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.schedule import Overlap, Schedule
from peloton.wire.job import job_spec
from peloton.wire.v1alpha.job_config import job_config_of, job_spec_of
from peloton.wire.validation.job import validated

NIGHTLY = 'cron: "30 3 * * 1-5" time_zone: "Europe/Berlin" overlap: OVERLAP_QUEUE catch_up: 2'


def config(schedule: str, more: str = "") -> job_pb2.JobConfig:
    made = job_pb2.JobConfig(name="job", instanceCount=1)
    made.defaultConfig.command.value = "true"
    made.defaultConfig.resource.cpuLimit = 1
    text_format.Parse(schedule, made.schedule)
    made.MergeFrom(text_format.Parse(more, job_pb2.JobConfig()))
    return made


def test_both_apis_have_the_same_schedule() -> None:
    made = validated(config(NIGHTLY))
    assert job_spec(made, 1).schedule == Schedule("30 3 * * 1-5", "Europe/Berlin", Overlap.QUEUE, 2)
    assert job_config_of(job_spec_of(made)).schedule == made.schedule


@pytest.mark.parametrize(
    ("schedule", "more", "field", "says"),
    [
        ("", "", "schedule.cron", "five fields"),
        ('cron: "* * * * * *"', "", "schedule.cron", "five fields"),
        ('cron: "0 24 * * *"', "", "schedule.cron", "bad hour"),
        ('cron: "0 0 30 2 *"', "", "schedule.cron", "bad day-of-month"),
        ('cron: "@daily" time_zone: "Mars"', "", "schedule.time_zone", "the name of a time zone"),
        ('cron: "@daily" catch_up: 101', "", "schedule.catch_up", "from 0 to 100"),
        ('cron: "@daily"', "type: SERVICE", "schedule", "only batch jobs"),
        ('cron: "@daily"', 'dependsOn { job: "a" }', "dependsOn", "each of its runs"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(schedule: str, more: str, field: str, says: str) -> None:
    made = config(schedule, more)
    made.schedule.SetInParent()
    with pytest.raises(InvalidArgument, match=says) as refused:
        validated(made)
    assert refused.value.field == field
