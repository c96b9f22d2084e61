"""Each command of docs/operations.md on deploying is run by a test: with compose, on Mesos, with systemd.

`RUN_BY` names the test, and a part of the code by which it runs the command. A command that is added to the
page without one fails here, as does an entry whose test, or whose code, is gone.
"""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.unit.deploy.compose import ROOT

SECTIONS = ("On one machine, in containers", "Deploying on Mesos", "With systemd")
PAGE = (ROOT / "docs" / "operations.md").read_text()
PROGRAM = re.compile(r"(?:\w+=\S+ )*(?:docker|make|peloton[a-z-]*|systemctl) \S")
FENCED = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

COMPOSE = "tests/containers/check_compose.py"
IMAGE = "tests/containers/check_image.py"
DEPLOY = "tests/cluster/test_deploy.py"
SYSTEMD = "tests/containers/check_systemd.py"
CLONE = "tests/containers/conftest.py"
PINNED = "tests/unit/deploy/test_images.py"
UNITS = "test_the_units_bring_a_cluster_up_that_restarts_what_dies"
FROM_OUTSIDE = "test_the_command_line_finds_the_leaders_and_the_tasks"

RUN_BY: dict[str, tuple[str, str, str]] = {
    # Both ask a public registry, which tests do without: docker is a program of the test there.
    "make images": (PINNED, "test_the_target_asks_for_each_image", 'make("images")'),
    "make images-check": (PINNED, "test_the_target_asks_for_each_image", 'make("images-check")'),
    # Mesos' own images come from there too: what it would bring up is read.
    "docker compose up --detach": (
        COMPOSE, "test_the_profile_of_mesos_is_valid", '"COMPOSE_PROFILES": "mesos"',
    ),
    "COMPOSE_PROFILES=own-mesos docker compose up --detach": (COMPOSE, "cluster", '"up", "--detach"'),
    "docker compose ps": (COMPOSE, "cluster", '"ps", "--all"'),
    "docker compose logs SERVICE": (
        COMPOSE, "test_wrong_settings_are_told_in_the_log_and_by_the_state", '"logs", "--no-log-prefix"',
    ),
    "docker compose build": (CLONE, "image", 'compose("build", "migrate")'),
    "docker compose down": (COMPOSE, "test_down_leaves_nothing", '"down", "--volumes"'),
    "peloton-migrate up": (SYSTEMD, UNITS, "peloton-migrate"),
    "peloton -z localhost:2181 …": (
        COMPOSE, FROM_OUTSIDE, '"peloton", "-z", "localhost:2181"',
    ),
    "peloton run": (COMPOSE, "test_the_readmes_first_job_by_command_line", '"cd /; peloton run "'),
    "peloton task logs": (COMPOSE, FROM_OUTSIDE, '"task", "logs"'),
    # Compose builds by the same file and arguments.
    "docker build --build-arg PYTHON_DIGEST=sha256:… -t peloton .": (
        CLONE, "clone", '"PYTHON_DIGEST": bases["PYTHON_IMAGE"]',
    ),
    "docker run peloton peloton-jobmgr -c FILE…": (
        IMAGE, "test_a_daemon_reads_the_files_that_it_is_given", '"peloton-jobmgr"',
    ),
    "docker run IMAGE cat /opt/peloton/sbom.json": (
        IMAGE, "test_its_list_of_parts_is_whole", '"cat", "/opt/peloton/sbom.json"',
    ),
    "peloton deploy plan -f installation.yaml": (
        DEPLOY, "test_from_nothing_to_a_first_job_and_back", 'deployer("plan", file)',
    ),
    "peloton deploy apply -f installation.yaml": (
        DEPLOY, "test_from_nothing_to_a_first_job_and_back", 'deployer("apply", file)',
    ),
    "peloton deploy apply -f installation.yaml --keep": (
        DEPLOY, "test_daemons_of_a_dead_host_come_up_elsewhere", '"apply", file, "--keep"',
    ),
    "peloton deploy status -f installation.yaml": (
        DEPLOY, "test_from_nothing_to_a_first_job_and_back", 'deployer("status", file',
    ),
    "peloton deploy rollback -f installation.yaml": (
        DEPLOY, "test_one_deployer_works_at_a_time", 'deployer("rollback"',
    ),
    "peloton deploy destroy -f installation.yaml --yes": (
        DEPLOY, "test_from_nothing_to_a_first_job_and_back", 'deployer("destroy", file, "--yes")',
    ),
    "peloton minicluster up --bare --membership zookeeper": (
        "tests/cluster/test_bare.py", "test_mesos_and_zookeeper_come_up_alone", '"--bare", "--membership"',
    ),
    "peloton deploy render --systemd -f installation.yaml -d rendered": (
        SYSTEMD, "rendered", '"deploy", "render", "--systemd"',
    ),
    "systemctl start peloton-migrate": (
        SYSTEMD, UNITS, '"systemctl", "start", "peloton-migrate"',
    ),
    "systemctl enable --now": (
        SYSTEMD, UNITS, '"systemctl", "enable", "--now"',
    ),
}  # fmt: skip
THIS_TARGET = "make test-containers"
"""The target that runs most of these tests."""


def commands(page: str) -> set[str]:
    """The commands of the sections: lines of the shell, and code within the text."""
    sections = [each for each in page.split("\n## ") if each.startswith(SECTIONS)]
    assert len(sections) == len(SECTIONS)
    found, told = set(), set()
    for section in sections:
        lines = (line for block in FENCED.findall(section) for line in block.splitlines())
        found |= {line.split("  #")[0].strip() for line in lines}
        told |= set(re.findall(r"`([^`]+)`", FENCED.sub("", section)))
    # The first words of a command name it in the text.
    told = {each for each in told if not any(other.startswith(f"{each} ") for other in found | told)}
    return set(filter(PROGRAM.match, found | told))


@cache
def functions(file: str) -> dict[str, str]:
    """The source of each function of a file, in one line."""
    text = (ROOT / file).read_text()
    return {
        node.name: " ".join((ast.get_source_segment(text, node) or "").split())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_each_command_has_a_test_that_runs_it() -> None:
    found = commands(PAGE)
    assert found - RUN_BY.keys() == {THIS_TARGET}, "a command without a test"
    assert RUN_BY.keys() - found == set(), "an entry whose command is not there"
    assert f"\n{THIS_TARGET.removeprefix('make ')}:" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("command", RUN_BY)
def test_the_test_is_there(command: str) -> None:
    file, name, code = RUN_BY[command]
    assert code in functions(file)[name]


def test_a_new_command_is_found() -> None:
    more = "\n\nSee `systemctl mask x`.\n\n```sh\npeloton deploy undo  # it all\n```\n"
    page = PAGE.replace("\n## With systemd\n", f"\n## With systemd\n{more}")
    assert commands(page) - commands(PAGE) == {"systemctl mask x", "peloton deploy undo"}
