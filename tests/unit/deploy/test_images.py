"""Images are pinned by digests that a registry told: none is assumed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.deploy.compose import ROOT
from tools import images

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Dockerfile", "docker-compose.yml", ".env"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    return tmp_path


def test_all_images_of_others_are_found() -> None:
    found = images.images(ROOT)
    assert set(found) == {
        *("PYTHON_IMAGE", "ZOOKEEPER_IMAGE", "CASSANDRA_IMAGE", "MESOS_MASTER_IMAGE", "MESOS_AGENT_IMAGE")
    }
    assert all(re.fullmatch(r"[\w/.-]+:[\w.-]+", image) for image in found.values())


def test_the_base_is_not_taken_without_its_digest() -> None:
    text = (ROOT / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(bases) == {"${PYTHON_IMAGE}@${PYTHON_DIGEST}"}
    assert re.search(r"^ARG PYTHON_DIGEST$", text, re.MULTILINE), "it has no default"
    compose = (ROOT / "docker-compose.yml").read_text()
    assert "PYTHON_DIGEST: ${PYTHON_DIGEST:?" in compose


def test_digests_are_written_beside_what_is_there(folder: Path) -> None:
    assert images.lacking(folder) == list(images.images(folder).values())
    for _ in range(2):
        images.pin(folder, lambda image: DIGEST)
    assert images.lacking(folder) == []
    held = images.pinned(folder)
    assert held["PYTHON_DIGEST"] == DIGEST
    assert re.fullmatch(rf"zookeeper:[\d.]+@{DIGEST}", held["ZOOKEEPER_IMAGE"])
    assert held["COMPOSE_PROFILES"] == "mesos"
    text = (folder / ".env").read_text()
    assert text.count("PYTHON_DIGEST=") == 1 and text.startswith("# Read by docker compose")


def test_a_digest_that_is_none_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho latest\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ValueError, match="python:3: docker tells no digest: latest"):
        images.digest_of("python:3")
    docker.write_text(f"#!/bin/sh\necho {DIGEST}\n")
    assert images.digest_of("python:3") == DIGEST


def test_the_target_asks_for_each_image(tmp_path: Path) -> None:
    """`make images` in a clone whose docker tells a digest of everything."""
    for name in (
        "Makefile",
        "Dockerfile",
        "docker-compose.yml",
        ".env",
        "tools/__init__.py",
        "tools/images.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\necho "$4" >> asked\necho {DIGEST}\n')
    docker.chmod(0o755)

    def make(target: str) -> subprocess.CompletedProcess[str]:
        path = f"{docker.parent}{os.pathsep}{os.environ['PATH']}"
        argv = ["make", "--no-print-directory", target, f"PYTHON={sys.executable}"]
        return subprocess.run(
            argv, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )

    before = make("images-check")
    assert before.returncode != 0 and "`make images` looks it up" in before.stdout
    assert make("images").returncode == 0
    assert (tmp_path / "asked").read_text().split() == list(images.images(ROOT).values())
    after = make("images-check")
    assert (after.returncode, after.stdout) == (0, "")
