"""A wrong method or field in a call between programs, or Any in a port, fails `make lint`.

Mistakes are planted in copies of the files, and mypy is run once over all of them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXPLICIT, IMPLICIT = 'Explicit "Any" is not allowed', 'has type "Any"'
ERROR = re.compile(r"(?P<path>[^:]+):\d+: error: (?P<text>.*)")


@dataclass(frozen=True)
class Mistake:
    """`right` becomes `wrong` where it first stands in a file, the first file of `place` that has it."""

    caller: str
    place: str
    right: str
    wrong: str
    found: str = ""
    """What mypy says of it contains this; empty: the wrong name."""

    @property
    def path(self) -> Path:
        """The file, relative to the root."""
        place = ROOT / self.place
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            if self.right in file.read_text():
                return file.relative_to(ROOT)
        raise AssertionError(f"{self.right!r} is not in {self.place} any more: plant another mistake")

    @property
    def named(self) -> str:
        """What an error has to contain."""
        if self.found:
            return self.found
        words = set(re.findall(r"\w+", self.wrong)) - set(re.findall(r"\w+", self.right))
        (name,) = words
        return f'"{name}"'


MISTAKES = (
    Mistake("jobmgr -> resmgr", "jobmgr/drivers", "_resmgr.enqueue(", "_resmgr.enqueues("),
    Mistake("jobmgr -> resmgr", "jobmgr/drivers", "answer.leader ", "answer.leading "),
    Mistake(
        "jobmgr -> resmgr", "jobmgr/clients", "GetPlacementsRequest(limit=", "GetPlacementsRequest(most="
    ),
    Mistake("jobmgr -> resmgr", "peloton/calls/jobmgr.py", "stub.GetPlacements", "stub.GetPlacement"),
    Mistake("jobmgr -> hostmgr", "jobmgr/drivers", "_hostmgr.kill_and_hold(", "_hostmgr.kill_and_keep("),
    Mistake("jobmgr -> hostmgr", "jobmgr/drivers", "failed.message", "failed.messages"),
    Mistake(
        "jobmgr -> hostmgr", "jobmgr/clients", "error.invalidOffers.message", "error.invalidOffer.message"
    ),
    Mistake("jobmgr -> hostmgr", "jobmgr/services", "hostmgr.master()", "hostmgr.masters()"),
    Mistake("jobmgr -> hostmgr", "peloton/calls/jobmgr.py", "stub.LaunchTasks", "stub.LaunchTask"),
    Mistake("resmgr -> hostmgr", "resmgr/drivers", "_hostmgr.mark_drained(", "_hostmgr.mark_draining("),
    Mistake(
        "resmgr -> hostmgr", "resmgr/clients.py", "answer.physicalSlackResources", "answer.slackResources"
    ),
    Mistake("resmgr -> hostmgr", "resmgr/services", "_hosts.hostnames()", "_hosts.names()"),
    Mistake("resmgr -> hostmgr", "peloton/calls/resmgr.py", "stub.ShortenClaims", "stub.ShortenClaim"),
    Mistake("placement -> resmgr", "placement", "DequeueGangsRequest(", "DequeueGangRequest("),
    Mistake("placement -> resmgr", "placement", "answer.plan_id", "answer.plan_ids"),
    Mistake("placement -> resmgr", "peloton/calls/placement.py", "stub.SetPlacements", "stub.SetPlacement"),
    Mistake("placement -> hostmgr", "placement", "answer.filterResultCounts", "answer.resultCounts"),
    Mistake("placement -> hostmgr", "peloton/calls/placement.py", "stub.FindHosts", "stub.FindHost"),
    Mistake("archiver -> jobmgr", "archiver", "answer.results", "answer.jobs"),
    Mistake("archiver -> jobmgr", "peloton/calls/archiver.py", "stub.Delete", "stub.DeleteJob"),
    Mistake(
        "hostmgr -> resmgr", "hostmgr", "GetHostsByScoresRequest(limit=", "GetHostsByScoresRequest(most="
    ),
    Mistake("hostmgr -> resmgr", "peloton/calls/hostmgr.py", "stub.GetHostsByScores", "stub.GetHostsByScore"),
    Mistake("CLI, jobs", "peloton/cli/live_names.py", "RPCS.job_svc.Query,", "RPCS.job_svc.QueryJobs,"),
    Mistake("CLI, jobs", "peloton/cli/follow.py", ").jobInfo", ").job_info"),
    Mistake(
        "CLI, tasks of resmgr",
        "peloton/cli/commands/resmgr.py",
        "GetPendingTasks, request",
        "GetPending, request",
    ),
    Mistake(
        "CLI, tasks of resmgr", "peloton/cli/commands/resmgr.py", "entry.lastUpdateTime", "entry.updateTime"
    ),
    Mistake(
        "web, figures", "peloton/web/views/overview", "cluster.started_per_second", "cluster.begun_per_second"
    ),
    Mistake("web, figures", "peloton/calls/web.py", "stub.GetQueues", "stub.GetQueue"),
    Mistake(
        "web, host pools", "peloton/web/views", "CreateHostPoolRequest(name=", "CreateHostPoolRequest(pool="
    ),
    Mistake("operators' tools", "peloton/calls/operators.py", "stub.GetHostCache", "stub.GetHostCaches"),
    Mistake("operators' tools", "peloton/cli/mesos_clusters.py", "answer.clusters", "answer.names"),
    Mistake(
        "operators' tools", "peloton/rpc/cluster_rules.py", "operators.QUERY_HOSTS,", "operators.QUERY_HOST,"
    ),
)
TYPING = "from typing import NamedTuple, Protocol\n"
LOG = "log = logging.getLogger(__name__)\n"
ANYS = (
    Mistake(
        "jobmgr's port",
        "jobmgr/ports/resmgr.py",
        TYPING,
        f"{TYPING}from typing import Any\nx: Any\n",
        EXPLICIT,
    ),
    Mistake(
        "resmgr's port", "resmgr/ports.py", TYPING, f"{TYPING}from typing import Any\nx: Any\n", EXPLICIT
    ),
    Mistake("adapter", "jobmgr/clients/hostmgr.py", LOG, f"{LOG}import json\nx = json.loads('')\n", IMPLICIT),
    Mistake("caller", "jobmgr/drivers/enqueue.py", LOG, f"{LOG}import json\nx = json.loads('')\n", IMPLICIT),
    Mistake("caller", "resmgr/drivers/claims.py", LOG, f"{LOG}import json\nx = json.loads('')\n", IMPLICIT),
    Mistake("caller", "placement/engine.py", LOG, f"{LOG}import json\nx = json.loads('')\n", IMPLICIT),
    Mistake("caller", "placement/planning.py", LOG, f"{LOG}import json\nx = json.loads('')\n", IMPLICIT),
)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """What mypy says with all mistakes planted, by file."""
    folder = tmp_path_factory.mktemp("planted")
    planted: dict[Path, str] = {}
    for mistake in (*MISTAKES, *ANYS):
        text = planted.get(mistake.path) or (ROOT / mistake.path).read_text()
        assert mistake.right in text, f"two mistakes take the same text: {mistake}"
        planted[mistake.path] = text.replace(mistake.right, mistake.wrong, 1)
    shadows: list[str] = []
    for number, (path, text) in enumerate(planted.items()):
        shadow = folder / f"{number}.py"
        shadow.write_text(text)
        shadows += ["--shadow-file", str(path), str(shadow)]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--cache-dir",
        str(folder / "cache"),
        "--follow-imports",
        "silent",
    ]
    run = subprocess.run([*command, *shadows, *map(str, planted)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1 and not run.stderr, run.stdout + run.stderr
    found: dict[str, list[str]] = defaultdict(list)
    for line in run.stdout.splitlines():
        if match := ERROR.match(line):
            found[match["path"]].append(match["text"])
    return found


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: f"{each.caller}: {each.wrong}")
def test_a_wrong_name_is_found(mistake: Mistake, errors: Mapping[str, Sequence[str]]) -> None:
    texts = errors.get(str(mistake.path), ())
    assert any(mistake.named in text for text in texts), texts


@pytest.mark.parametrize("mistake", ANYS, ids=lambda each: f"{each.caller}: {each.place}")
def test_any_in_a_port_or_a_caller_of_one_is_found(
    mistake: Mistake, errors: Mapping[str, Sequence[str]]
) -> None:
    texts = errors.get(str(mistake.path), ())
    assert any(mistake.named in text for text in texts), texts


def test_at_least_ten_callers_are_tried() -> None:
    assert len({mistake.caller for mistake in MISTAKES}) >= 10
