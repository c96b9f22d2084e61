"""The table of calls that clients in other languages may repeat is that of the Python client."""

import json

from tools.clients import CALLS, PAGE, rules, section


def test_the_table_is_up_to_date() -> None:
    assert json.loads(CALLS.read_text()) == rules(), "write it anew: python -m tools.clients table"
    assert section() in PAGE.read_text(), "write it anew: python -m tools.clients table"


def test_what_creates_is_repeated_by_its_id_only() -> None:
    table = rules()
    assert table["peloton.api.v0.job.JobManager/Create"] == "id"
    assert table["peloton.api.v1alpha.job.stateless.svc.JobService/CreateJob"] == "job_id"
    assert table["peloton.api.v1alpha.job.stateless.svc.JobService/ReplaceJob"] == "version"
    assert table["peloton.api.v0.host.svc.HostService/CreateHostPool"] == "never"
