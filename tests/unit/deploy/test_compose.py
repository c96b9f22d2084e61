"""docker-compose.yml: its form, and every command that it has run, outside docker."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from minicluster.ports import FreePorts
from peloton.config.sources import read_yaml
from peloton.model.states import PlacedTaskType
from placement.config import PlacementSettings
from tests.unit.deploy.compose import ROOT, document, health_test, services
from tests.unit.deploy.servers import answering, http

SERVICES = services()
BIN = Path(sys.executable).parent
DAEMON = re.compile(r"peloton-(jobmgr|resmgr|hostmgr|placement)")
DAEMONS = {
    name: each for name, each in SERVICES.items() if DAEMON.fullmatch(str(each.get("command", [""])[0]))
}
KEYS = {
    "build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "hostname", "image", "init",
    "networks", "ports", "profiles", "pull_policy",
    "read_only", "restart", "security_opt", "stop_grace_period", "tmpfs", "volumes",
}  # fmt: skip
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
PROFILES = {"mesos", "own-mesos"}
SECONDS = 60


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """As in the container, with /etc/peloton being deploy/, and our programs on the path."""
    here = [part.replace("/etc/peloton", str(ROOT / "deploy")) for part in command]
    return subprocess.run(
        here, env=surroundings(**environment), capture_output=True, text=True, timeout=SECONDS
    )


def surroundings(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "LANG", "PYTHONPATH")}
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", **more}


# Form.


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_what_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert set(service) <= KEYS
    assert re.fullmatch(r"[\w./-]+:[\w.-]+", service["image"]), "an image has a tag"
    assert service["image"] == "peloton:latest" or not service["image"].endswith(":latest")
    assert service["restart"] == "unless-stopped" or name == "migrate"
    assert set(service.get("profiles", ())) <= PROFILES
    assert health_test(service) or service["healthcheck"] == {"disable": True}


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_loopback_only_and_once(name: str) -> None:
    for port in SERVICES[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)
        users = [each for each, service in SERVICES.items() if _host_ports(service, port)]
        assert all(_never_together(SERVICES[name], SERVICES[each]) for each in users if each != name), port


def _host_ports(service: dict[str, Any], port: str) -> bool:
    host = port.rpartition(":")[0]
    return any(each.rpartition(":")[0] == host for each in service.get("ports", ()))


def _never_together(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(one.get("profiles")) and one["profiles"] != other.get("profiles", one["profiles"])


@pytest.mark.parametrize("name", SERVICES)
def test_dependencies_exist_and_reach_their_condition(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert how["condition"] in CONDITIONS
        assert how["condition"] != "service_healthy" or health_test(SERVICES[other])
        profiles = set(SERVICES[other].get("profiles", ()))
        assert not profiles or not how.get("required", True) or profiles == set(SERVICES[name]["profiles"])


def test_the_image_is_built_once_and_never_pulled() -> None:
    """Where several services build one tag, the first `docker compose up` ends with `already exists`."""
    ours = {name: each for name, each in SERVICES.items() if each["image"] == "peloton:latest"}
    builders = {name: each["pull_policy"] for name, each in ours.items() if "build" in each}
    assert builders == {"migrate": "build"}
    assert not SERVICES["migrate"].get("profiles")
    assert {each["pull_policy"] for name, each in ours.items() if name not in builders} == {"never"}


def test_volumes_are_named_and_declared() -> None:
    used = {
        volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())
    }
    assert used - {"./deploy"} == set(document()["volumes"])


def test_the_chosen_profile_exists() -> None:
    chosen = dict(line.split("=", 1) for line in _lines(ROOT / ".env"))
    assert chosen["COMPOSE_PROFILES"] in PROFILES


def _lines(file: Path) -> Iterator[str]:
    return (line for line in file.read_text().splitlines() if line and not line.startswith("#"))


# Daemons.


def test_all_daemons_run_and_leaders_run_twice() -> None:
    found = [DAEMON.fullmatch(each["command"][0])[1] for each in DAEMONS.values()]  # type: ignore[index]
    assert Counter(found) == {"jobmgr": 2, "resmgr": 2, "hostmgr": 2, "placement": 6}
    configs = [Path(each["command"][-1]).name for each in DAEMONS.values()]
    engines = [read_yaml(ROOT / "deploy" / name) for name in configs if "placement" in name]
    served = Counter(each for one in engines for each in PlacementSettings.model_validate(one).task_type)
    assert served == dict.fromkeys(get_args(PlacedTaskType), 2)


@pytest.mark.parametrize("name", [name for name in DAEMONS if name.endswith("0")])
def test_daemon_settings_are_valid(name: str) -> None:
    done = run([*DAEMONS[name]["command"], "--check"])
    assert (done.stdout, done.stderr, done.returncode) == ("ok\n", "", 0)


@pytest.mark.parametrize("name", DAEMONS)
def test_second_instance_matches_the_first(name: str) -> None:
    first = DAEMONS[f"{name[:-1]}0"]
    assert DAEMONS[name]["command"] == first["command"]
    assert health_test(DAEMONS[name]) == health_test(first)


@pytest.mark.parametrize("name", DAEMONS)
def test_health_check_and_published_ports_match(name: str) -> None:
    service = DAEMONS[name]
    settings = _settings(service["command"])
    assert health_test(service)[-1] == f"127.0.0.1:{settings['http_port']}"
    published = {int(port.rpartition(":")[2]) for port in service["ports"]}
    assert settings["http_port"] in published
    assert published <= {settings["http_port"], settings["grpc_port"]}


def _settings(command: list[str]) -> dict[str, Any]:
    files = [Path(part) for part in command if part.startswith("/etc/peloton/")]
    found: dict[str, Any] = {}
    for file in files:
        found |= yaml.safe_load((ROOT / "deploy" / file.name).read_text())
    return found


def test_the_web_ui_is_for_this_machine_only() -> None:
    service = SERVICES["web"]
    settings = _settings(service["command"])
    done = run([*service["command"], "--check"])
    assert (done.stdout, done.stderr, done.returncode) == ("ok\n", "", 0)
    assert health_test(service)[-1] == f"127.0.0.1:{settings['http_port']}"
    assert service["ports"] == [f"127.0.0.1:{settings['http_port']}:{settings['http_port']}"]
    # The health check of the container calls it by its address.
    assert {"localhost", "127.0.0.1"} <= set(settings["host_names"])


@pytest.mark.parametrize("name", DAEMONS)
def test_servers_in_settings_are_services(name: str) -> None:
    settings = _settings(DAEMONS[name]["command"])
    hosts = {settings["membership"]["servers"].partition(":")[0]}
    hosts |= set(settings.get("storage", {}).get("contact_points", ()))
    hosts |= {settings["mesos"]["master"].partition(":")[0]} if "mesos" in settings else set()
    assert hosts <= set(SERVICES)
    assert hosts - {"mesos-master"} <= set(DAEMONS[name]["depends_on"]) | {"cassandra"}


def test_invalid_settings_print_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("htpp_port: 1\n")
    done = run(["peloton-placement", "-c", str(file), "--check"])
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == f"peloton-placement: {file}: htpp_port: unknown setting; did you mean http_port?\n"


def test_a_secret_that_cannot_be_read_is_found_by_the_check(tmp_path: Path) -> None:
    done = run([*DAEMONS["hostmgr0"]["command"], "--check", "--mesos-secret-file", str(tmp_path / "none")])
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr.startswith("peloton-hostmgr: mesos.secret_file: ")


def test_migration_names_the_server_that_does_not_answer() -> None:
    with closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = str(nobody.getsockname()[1])
        done = run(SERVICES["migrate"]["command"], CASSANDRA_HOSTS="127.0.0.1", CASSANDRA_PORT=port)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("peloton-migrate: ")
    assert f"127.0.0.1:{port}" in done.stderr


# Health checks.


PROBES = [name for name in SERVICES if "peloton.daemon.healthcheck" in " ".join(health_test(SERVICES[name]))]
TALKS = {
    "zookeeper": (b"imok", b"This ZooKeeper instance is not currently serving requests"),
    "mesos-master": (http("200 OK"), http("503 Service Unavailable")),
}


@pytest.mark.parametrize("name", sorted({name.rstrip("1") for name in PROBES}))
def test_http_probe(name: str, tmp_path: Path) -> None:
    name = name if name in SERVICES else f"{name}1"
    (tmp_path / "hostname").write_text("#!/bin/sh\necho 127.0.0.1\n")
    (tmp_path / "hostname").chmod(0o755)
    for status, code in (("200 OK", 0), ("503 Service Unavailable", 1)):
        with answering(http(status, "what is")) as port:
            done = run(_at(health_test(SERVICES[name]), port), PATH=f"{tmp_path}:{BIN}:{os.environ['PATH']}")
        assert (done.stdout, done.returncode) == ("what is\n", code)


@pytest.mark.parametrize("name", TALKS)
def test_dialogue_probe(name: str) -> None:
    for answer, code in zip(TALKS[name], (0, 1), strict=True):
        with answering(answer) as port:
            assert run(_at(health_test(SERVICES[name]), port)).returncode == code


@pytest.mark.parametrize("name", [n for n in SERVICES if health_test(SERVICES[n]) and n not in PROBES])
def test_port_probe(name: str) -> None:
    with answering(TALKS.get(name, (b"",))[0]) as port:
        command = _at(health_test(SERVICES[name]), port)
        assert run(command).returncode == 0
    assert run(command).returncode == 1


def _at(command: list[str], port: int) -> list[str]:
    return [re.sub(r"(?<=[:/])\d{4}(?!\d)", str(port), part) for part in command]


# The project's own Mesos.


def test_own_mesos_starts_and_its_agent_registers(tmp_path: Path) -> None:
    (tmp_path / "hostname").write_text("#!/bin/sh\necho 127.0.0.1\n")
    (tmp_path / "hostname").chmod(0o755)
    ports = FreePorts(owner=tmp_path)
    master_port, agent_port = ports.take(), ports.take()
    with _running("own-mesos-master", tmp_path, f"--port {master_port}", "") as master:
        _until_told(master, "listening")
        there = f"127.0.0.1:{master_port}"
        with _running("own-mesos-agent0", tmp_path, f"--port {agent_port}", there) as agent:
            _until_told(agent, "registered as")
            assert (
                run(
                    [sys.executable, "-m", "peloton.daemon.healthcheck", f"127.0.0.1:{agent_port}"]
                ).returncode
                == 0
            )


@contextmanager
def _running(name: str, folder: Path, more: str, master: str) -> Iterator[Path]:
    """The service's command with further flags; yields the file of its output."""
    shell, dash_c, script = SERVICES[name]["command"]
    script = script.replace("/var/lib/peloton", str(folder / name)).replace("mesos-master:5050", master)
    output = folder / f"{name}.log"
    environment = surroundings(PATH=f"{folder}:{BIN}:{os.environ['PATH']}")
    with output.open("wb") as log:
        process = subprocess.Popen(
            [shell, dash_c, f"{script} {more}"], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield output
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()
        process.wait(60)


def _until_told(output: Path, what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while what not in output.read_text():
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.02)
