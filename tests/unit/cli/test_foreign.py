"""Files of other schedulers are recognised, and the page has specs that are valid here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from peloton.client.foreign import KUBERNETES, NOMAD, SLURM, recognised
from peloton.specs import check

from .conftest import Run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "coming-from.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.S)
OWN = [text for kind, text in BLOCKS if kind == "yaml" and "apiVersion" not in text]
OTHERS = [(kind, text) for kind, text in BLOCKS if text not in OWN]
NOMAD_JSON = {
    "Job": {
        "ID": "x",
        "Type": "service",
        "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Driver": "docker"}]}],
    }
}


def test_the_page_has_a_pair_for_each_scheduler() -> None:
    assert [kind for kind, _ in OTHERS] == ["yaml", "hcl", "sh"] and len(OWN) == 3


@pytest.mark.parametrize("text", OWN)
def test_the_specs_of_the_page_are_valid(text: str) -> None:
    found = check(text, "page.yaml")
    assert (list(found.errors), list(found.warnings)) == ([], [])


@pytest.mark.parametrize(
    ("text", "what", "keys"),
    [
        (
            OTHERS[0][1],
            "a manifest of Kubernetes, a Deployment, and no spec of Peloton: docs/coming-from.md#kubernetes",
            {
                "f:5: replicas: instance_count",
                "f:10: command: default_spec.containers[0].entrypoint.value, the program",
            },
        ),
        (
            OTHERS[1][1],
            "a job of Nomad",
            {"f:4: count: instance_count", "f:2: type: type: BATCH, SERVICE or DAEMON; `system` is DAEMON"},
        ),
        (
            OTHERS[2][1],
            "a batch script of Slurm",
            {"f:2: --job-name: name", "f:6: --time: sla.maxRunningTime, such as 2h"},
        ),
        (json.dumps(NOMAD_JSON, indent=1), "a job of Nomad", {"f:8: Count: instance_count"}),
        ('{"apiVersion": "v1",\n "kind": "Pod"}', "a Pod", set()),
        ("---\napiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Pod\n", "a Service", set()),
    ],
)
def test_files_of_others_are_recognised_with_their_keys(text: str, what: str, keys: set[str]) -> None:
    found = [str(each) for each in recognised(text, "f")]
    assert what in found[0]
    assert keys <= set(found), found


def test_validate_says_what_a_file_is(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(OTHERS[0][1])
    outcome = run("job", "validate", str(file))
    assert outcome.code == 1 and f"{file}:1: this is a manifest of Kubernetes, a Deployment" in outcome.err
    outcome = run("plan", str(file))
    assert outcome.code == 1 and "this is a manifest of Kubernetes" in outcome.err
    outcome = run("job", "create", "/a", str(file))
    assert outcome.code == 1 and "`peloton job validate` lists the keys here" in outcome.err


def test_own_specs_are_not_taken_for_others() -> None:
    for file in (Path(__file__).resolve().parents[3] / "examples").rglob("*.yaml"):
        others = recognised(file.read_text(), file.name)
        assert bool(others) == ("kubernetes-api" in file.parts), file
    assert recognised("", "f") == recognised("name: kind\nowner: job\n", "f") == []
    assert recognised("x" * 2_000_000 + "\napiVersion: v1\nkind: Pod", "f") == []


@pytest.mark.parametrize("system", [KUBERNETES, NOMAD, SLURM], ids=lambda system: system.name)
def test_the_keys_that_are_named_are_keys_here(system: object) -> None:
    from peloton.specs import message_type
    from tools.spec_reference import TITLES, messages

    known = {
        field.name
        for kind in TITLES
        for each in messages(message_type(kind).DESCRIPTOR, {})
        for field in each.fields
    }
    for here in system.keys.values():  # type: ignore[attr-defined]
        for path in re.findall(r"\b(?:sla|default_spec|defaultConfig)(?:\.[a-zA-Z_]+|\[\d*\])+", here):
            assert set(re.findall(r"[a-zA-Z_]+", path)) <= known, path
