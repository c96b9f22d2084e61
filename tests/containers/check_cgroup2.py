"""Tasks' limits in control groups of version 2: by a kernel that has all their controllers."""

from __future__ import annotations

import re
import sys

import pytest

from minicluster.servers.maven import Missing
from tests.conftest import lacking
from tests.servers.engine.running import ROOT
from tests.servers.user_mode_linux import run

SECONDS = 900.0
FILES = ("tests/unit/minicluster_mesos/test_cgroups.py", "tests/contract/mesos/test_agent.py")
TESTS = (
    "test_the_kernel_takes_the_values_and_accounts_for_the_task",
    "test_a_task_over_its_memory_fails_with_the_reason",
    "test_the_usage_of_a_task_is_told_in_mesos_form",
)
LOOK = "import pathlib; print(pathlib.Path('/sys/fs/cgroup/cgroup.controllers').read_text())"


@pytest.mark.timeout(1800)
def test_limits_and_usage_of_tasks() -> None:
    try:
        code, told = run([sys.executable, "-c", LOOK], ROOT, SECONDS)
        assert code == 0 and {"cpu", "memory", "pids"} <= set(told.split()), told
        pytest_ = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs")
        code, told = run([*pytest_, "-k", " or ".join(TESTS), *FILES], ROOT, SECONDS)
    except Missing as missing:
        lacking(missing)
    assert code == 0, told
    assert re.search(rf"^{len(TESTS)} passed", told, re.MULTILINE) and "skipped" not in told, told
