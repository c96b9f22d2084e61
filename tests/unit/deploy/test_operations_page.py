"""docs/operations.md names what is there: metrics, settings, files."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.unit.deploy.compose import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text()
PREFIXES = ("health", "rpc", "jobmgr", "resmgr", "hostmgr", "placement", "archiver")
METRICS = sorted(set(re.findall(rf"`[^`]*?\b((?:{'|'.join(PREFIXES)})_[a-z_]+)", PAGE)))
MAINS = tuple(f"{name}.__main__" for name in PREFIXES[2:])
"""What a daemon imports; all its metrics are made thereby."""


@pytest.fixture(scope="module")
def made() -> set[str]:
    """Names of all metrics, as /metrics shows them."""
    code = f"import {', '.join(MAINS)}, prometheus_client as p; print(*p.REGISTRY._names_to_collectors)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def test_there_are_metrics_to_watch() -> None:
    assert len(METRICS) > 15


@pytest.mark.parametrize("name", METRICS)
def test_named_metrics_exist(name: str, made: set[str]) -> None:
    assert name in made


def test_all_metrics_of_host_pools_are_named(made: set[str]) -> None:
    found = {name for name in made if name.startswith("hostmgr_host_pool_")}
    assert len(found) >= 3 and found <= set(METRICS)


def test_named_files_exist() -> None:
    for path in re.findall(r"(?:deploy|examples|benchmarks)/[\w.-]+", PAGE):
        assert (ROOT / path).exists(), path


def test_named_defaults_match_the_settings() -> None:
    """Where a setting is followed by a number in brackets."""
    defaults: dict[str, set[str]] = {}
    for line in (ROOT / "docs" / "settings.md").read_text().splitlines():
        if match := re.match(r"\| `([\w.]+)` \| [^|]* \| `([\d.]+)` \|", line):
            for name in (match[1], match[1].rpartition(".")[2]):
                defaults.setdefault(name, set()).add(match[2])
    named = re.findall(r"`([a-z_.]+)`,? \(?(\d[\d,]*)(?: s)?\)", PAGE)
    assert len(named) >= 4, named
    for name, value in named:
        assert value.replace(",", "") in defaults.get(name, set()), (name, value)
