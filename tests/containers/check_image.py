"""The image: small, without tools to build, read-only, not root's, with labels and a list of its parts."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from tests.servers.engine import Engine
from tests.servers.engine.running import ROOT
from tools.images import images

OURS_MB = 200
"""Above the base."""
LOCKED_DOWN = ("--rm", "--read-only", "--network", "none", "--cap-drop", "ALL")
PROGRAMS = (
    "peloton",
    "peloton-jobmgr",
    "peloton-resmgr",
    "peloton-hostmgr",
    "peloton-placement",
    "peloton-web",
)
TOOLS = ("gcc", "cc", "c++", "ld", "as", "make", "pip", "pip3", "wheel")
LOOK = """
import importlib.util, os, shutil
names = ("pip", "setuptools", "wheel", "pkg_resources", "ensurepip")
print(os.getuid(), os.getgid())
print([name for name in names if importlib.util.find_spec(name)])
"""


def inside(engine: Engine, image: str, *command: str) -> str:
    return engine.must("run", *LOCKED_DOWN, "--security-opt", "no-new-privileges", image, *command)


def test_it_is_small(engine: Engine, image: str, bases: object) -> None:
    base = images(ROOT)["PYTHON_IMAGE"]
    sizes = [int(engine.must("image", "inspect", "--format", "{{.Size}}", each)) for each in (image, base)]
    whole, below = (size / 1e6 for size in sizes)
    print(f"image: {whole:.0f} MB, of which {whole - below:.0f} MB are not of its base")
    assert whole - below < OURS_MB


def test_it_runs_as_its_user_and_has_no_tools_to_build(engine: Engine, image: str) -> None:
    user, found = inside(engine, image, "python", "-c", LOOK).splitlines()
    assert (user, found) == ("10001 10001", "[]")
    script = f"for each in {' '.join(TOOLS)}; do command -v $each; done; true"
    assert inside(engine, image, "sh", "-c", script) == ""


def test_nothing_in_it_can_be_changed(engine: Engine, image: str) -> None:
    places = "/ /opt/peloton /var/lib/peloton /tmp /etc"
    script = f"for each in {places}; do touch $each/new 2>/dev/null && echo $each; done; true"
    assert inside(engine, image, "sh", "-c", script) == ""
    # Where the root is not read-only, its user still owns nothing but its own folder.
    find = "find / -xdev -writable -type f 2>/dev/null | grep -v -E '^/(proc|sys|dev|var/lib/peloton)/'; true"
    assert engine.must("run", "--rm", "--network", "none", image, "sh", "-c", find) == ""


@pytest.mark.parametrize("program", PROGRAMS)
def test_its_programs_start(engine: Engine, image: str, program: str) -> None:
    assert "Usage" in inside(engine, image, program, "--help").replace("usage", "Usage")


def test_its_labels_say_what_it_is(engine: Engine, image: str, bases: dict[str, str]) -> None:
    labels = json.loads(engine.must("image", "inspect", "--format", "{{json .Config.Labels}}", image))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "org.opencontainers.image."
    found = {name.removeprefix(prefix): value for name, value in labels.items() if name.startswith(prefix)}
    assert found["version"] == project["version"]
    assert found["licenses"] == project["license"]
    assert found["base.digest"] == bases["PYTHON_IMAGE"]
    assert found["base.name"] == images(ROOT)["PYTHON_IMAGE"]
    assert found["title"] and found["description"] and found["revision"]


def test_a_daemon_reads_the_files_that_it_is_given(engine: Engine, image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # it is the image's user who reads them
    (tmp_path / "right.yaml").write_text(SETTINGS)
    (tmp_path / "wrong.yaml").write_text(SETTINGS.replace("http_port", "htpp_port"))
    run = ("run", *LOCKED_DOWN, "--volume", f"{tmp_path}:/given:ro", image, "peloton-jobmgr")
    assert engine.must(*run, "-c", "/given/right.yaml", "--check").strip() == "ok"
    done = engine.docker(*run, "-c", "/given/wrong.yaml")
    assert done.returncode == 1
    assert "/given/wrong.yaml: htpp_port: unknown setting; did you mean http_port?" in done.stdout


def test_its_list_of_parts_is_whole(engine: Engine, image: str) -> None:
    bill = json.loads(inside(engine, image, "cat", "/opt/peloton/sbom.json"))
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "peloton")
    found = {each["purl"].partition("?")[0] for each in bill["components"]}
    locked = re.findall(
        r"^([\w.-]+)==([\w.]+)( ;.*)?", (ROOT / "locks" / "image.txt").read_text(), re.MULTILINE
    )
    installed = inside(engine, image, "python", "-c", LISTED).split()
    assert {name for name in installed if not name.startswith("peloton@")} == {
        each.removeprefix("pkg:pypi/") for each in found if each.startswith("pkg:pypi/")
    }
    assert len(installed) > len(locked) / 2
    packages = inside(engine, image, "dpkg-query", "--show", "--showformat=${Package}@${Version}\\n").split()
    assert {f"pkg:deb/debian/{each}" for each in packages} <= found


SETTINGS = """
http_port: 5292
membership: {kind: local, directory: /var/lib/peloton/membership}
storage: {kind: sqlite, path: /var/lib/peloton/peloton.db}
"""
LISTED = """
import re, sys
from importlib.metadata import distributions
for each in distributions(path=sys.path[1:]):
    print(re.sub(r"[-_.]+", "-", each.name).lower() + "@" + each.version)
"""


ANSWERING = """
from http.server import BaseHTTPRequestHandler, HTTPServer
BaseHTTPRequestHandler.do_GET = lambda self: self.send_response({}) or self.end_headers()
HTTPServer(("127.0.0.1", 8000), BaseHTTPRequestHandler).serve_forever()
"""


def test_its_health_check_asks_at_the_port_that_it_is_told(engine: Engine, image: str) -> None:
    check = json.loads(engine.must("image", "inspect", "--format", "{{json .Config.Healthcheck}}", image))
    assert check["Test"] == ["CMD", "python", "-m", "peloton.daemon.healthcheck"]
    begun = ("run", "--detach", "--network", "none", "--env", "HTTP_PORT=8000", "--health-interval", "1s")
    for status, told in (("200", "healthy"), ("503", "unhealthy")):
        container = engine.must(
            *begun, "--health-start-period", "0s", image, "python", "-c", ANSWERING.format(status)
        ).splitlines()[-1]
        try:
            engine.until_health(container, told)
        finally:
            engine.must("rm", "--force", container)
