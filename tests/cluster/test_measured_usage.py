"""What the account says a task has used is what the kernel says, on our agents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from minicluster.settings import DaemonSettings
from peloton.api.v0.job import job_pb2
from peloton.private.hostmgr.sampling import sampling_pb2
from peloton.private.jobmgr.usage import usage_pb2

from .conftest import Harness, harness_of, wait_for

BURN_SECONDS = 60
HELD_MB = 200
SCRIPT = f"""cat > burn.py <<'END'
import resource, time
held = bytearray({HELD_MB} * 1024 * 1024)
for at in range(0, len(held), 4096):
    held[at] = 1
while time.process_time() < {BURN_SECONDS}:
    pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
END
exec python3 burn.py > """


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    quick = DaemonSettings(hostmgr={"usage": {"interval": 2}}, jobmgr={"usage": {"interval": 1}})
    with harness_of(tmp_path_factory, settings=quick) as held:
        yield held


def accounted(harness: Harness) -> usage_pb2.Amounts:
    # An hour counts by its beginning: what is used over the turn of an hour is in the one before as well.
    request = usage_pb2.ListAccountsRequest(since=int(time.time()) - 2 * 3600)
    accounts = harness.client.usage_svc.ListAccounts(request).accounts
    return accounts[0].amounts if accounts else usage_pb2.Amounts()


def seen_while_it_runs(harness: Harness, job_id: str) -> None:
    """Look where `top` and the pages do: jobs, hosts, and what they used over time."""
    usage = harness.client.usage_svc

    def job_seen() -> bool:
        used = {each.job_id: each for each in usage.ListUsed(usage_pb2.ListUsedRequest()).jobs}
        return job_id in used and used[job_id].cores > 0 and used[job_id].memory_bytes > HELD_MB << 19

    wait_for(job_seen, 60)
    account = usage_pb2.GetJobAccountRequest()
    account.job_id.value = job_id
    wait_for(lambda: any(each.used_cores > 0 for each in usage.GetJobAccount(account).course), 60)
    instance = usage_pb2.GetUsageRequest(instances=[0], with_course=True)
    instance.job_id.value = job_id
    (found,) = usage.GetUsage(instance).usages
    assert found.course and found.course[0].held_mb == 512
    instance = usage_pb2.GetUsageRequest(job_id=instance.job_id, told_last=True)
    (told,) = usage.GetUsage(instance).usages
    assert told.cores > 0 and told.memory_bytes > HELD_MB << 19 and told.told_at > time.time() - 60
    hosts = harness.client.sampling_svc
    (host,) = hosts.ListHosts(sampling_pb2.ListHostsRequest(hostnames=[found.host])).hosts
    assert host.tasks == 1 and host.memory_bytes > HELD_MB << 19
    request = sampling_pb2.ListHostsRequest(hostnames=[found.host], with_course=True)
    wait_for(lambda: any(each.cores > 0 for each in hosts.ListHosts(request).hosts[0].course), 60)


@pytest.mark.extended
@pytest.mark.timeout(1200)
def test_a_task_that_burns_a_core_and_holds_memory_is_measured_within_5_percent(
    harness: Harness, tmp_path: Path
) -> None:
    config = harness.config(SCRIPT + str(tmp_path / "said"), 1)
    config.defaultConfig.resource.cpuLimit, config.defaultConfig.resource.memLimitMb = 1, 512
    job_id = harness.create(config)
    wait_for(lambda: accounted(harness).used_cpu > 1, 60)
    seen_while_it_runs(harness, job_id)
    assert not harness.runtime(job_id).completionTime, "it was to be seen by samples, while it ran"
    assert harness.ended(job_id, 900).state == job_pb2.SUCCEEDED
    (task,) = harness.tasks(job_id).values()
    said = (tmp_path / "said").read_text().split()
    kernel_cpu, kernel_mb = float(said[0]), float(said[1])
    usage = task.runtime.resourceUsage
    assert usage["cpu_used"] == pytest.approx(kernel_cpu, rel=0.05)
    assert usage["memory_peak"] == pytest.approx(kernel_mb, rel=0.05)
    mean = usage["memory_used"] / usage["memory"] * 512
    assert HELD_MB * 0.7 < mean < kernel_mb * 1.05  # the first second has less

    def settled() -> bool:
        return accounted(harness).used_cpu == pytest.approx(usage["cpu_used"], abs=1e-5)

    wait_for(settled, 60)
    amounts = accounted(harness)
    assert amounts.held_cpu == pytest.approx(usage["cpu"], abs=1e-5)
    assert amounts.held_memory == pytest.approx(usage["memory"], abs=1e-5)
