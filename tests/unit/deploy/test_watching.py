"""Dashboards and alert rules ask for metrics and labels that the daemons have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.promql import DASHBOARDS, ROOT, Query, check, queries, rules
from tests.unit.deploy.compose import services
from tests.unit.deploy.test_operations_page import MAINS, PREFIXES
from tools.dashboards import ALL, as_json

OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
COLLECTED = {
    **{
        f"resmgr_pool_{name}": {"pool", "kind"}
        for name in ("allocation", "slack_allocation", "entitlement", "demand", "reservation", "limit")
    },
    "resmgr_pool_pending": {"pool", "queue"},
    "resmgr_pending_to_ready_seconds_bucket": {"pool", "le"},
    "resmgr_pending_to_running_seconds_bucket": {"pool", "le"},
    "jobmgr_tasks": {"state"},
    "jobmgr_jobs": {"type", "state"},
    "jobmgr_job_tasks": {"job_id", "name", "state"},
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
}
"""Labels of what is collected when it is asked for. A running cluster shows whether they are true."""


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """The labels of every metric that the daemons declare, by the names of their samples."""
    code = f"""
import {", ".join(MAINS)}, json, prometheus_client as p
found = {{c for c in p.REGISTRY._names_to_collectors.values() if hasattr(c, "_labelnames")}}
print(json.dumps([[c._name, c._type, list(c._labelnames)] for c in found]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    made: dict[str, set[str]] = dict(COLLECTED)
    for name, kind, names in json.loads(done.stdout):
        for suffix in SUFFIXES[kind]:
            made[name + suffix] = {*names, *(("le",) if suffix == "_bucket" else ())}
    return made


def test_what_is_asked_for_exists(labels: dict[str, set[str]]) -> None:
    asked = list(queries())
    assert len(asked) > 150
    for query in asked:
        assert query.selectors() or "up{" in query.text
        check(query, labels)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hostmgr_agent", "no metric hostmgr_agent"),
        ('hostmgr_agents{kind="x"}', "no label {'kind'}"),
        ("sum by (kind) (hostmgr_agents)", "no label {'kind'} to group by"),
        ("sum by (", "sum by"),
    ],
)
def test_the_check_finds_faults(text: str, says: str, labels: dict[str, set[str]]) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        check(Query("here", text), labels)


def test_the_dashboards_are_those_of_the_generator() -> None:
    written = {path.stem: json.loads(path.read_text()) for path in DASHBOARDS}
    assert written == {each.name: as_json(each) for each in ALL}, "make dashboards"


def test_there_is_a_dashboard_for_each_daemon_and_for_cluster_pool_and_job() -> None:
    assert {path.stem for path in DASHBOARDS} == {"cluster", "pool", "job", *PREFIXES[2:]}


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_do_not_overlap(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    dashboard = json.loads(path.read_text())
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


def test_every_row_of_what_to_watch_has_a_rule() -> None:
    table = OPERATIONS.split("| alert when |")[1].split("\n\n")[0].splitlines()[2:]
    asked = {name for rule in rules() for name, _ in Query(rule["alert"], rule["expr"]).selectors()}
    assert len(table) > 15
    for row in table:
        first = row.split("|")[1]
        named = re.findall(rf"\b(?:{'|'.join(PREFIXES)})_[a-z_]+", first)
        assert any(name in asked or f"{name}_bucket" in asked for name in named) or "target is down" in row, (
            row
        )


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_rules_are_well_formed(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"[0-9]+[smh]", rule.get("for", "0s"))
    assert rule["labels"]["severity"] in ("critical", "warning")
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    groups = Query(rule["alert"], rule["expr"]).groupings()
    assert not used or not groups or used <= set().union(*(labels for labels, _ in groups)), used


def test_prometheus_scrapes_the_daemons_of_docker_compose() -> None:
    config = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    assert config["rule_files"] == ["alerts.yml"]
    for job in config["scrape_configs"]:
        for target in job["static_configs"][0]["targets"]:
            name, _, port = target.partition(":")
            service = services()[name]
            assert f"peloton-{job['job_name']}" in service["command"]
            assert any(port in str(part) for part in service["healthcheck"]["test"]), target
