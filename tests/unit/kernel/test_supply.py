"""Locked requirements, and their comparison with known weaknesses."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tools import audit, lock, vendored

ROOT = Path(__file__).parents[3]
LOCKS = {
    name: (ROOT / "locks" / f"{name}.txt").read_text()
    for name in (
        "build",
        "image",
        "dev",
        *(each.removesuffix(".txt") for each in lock.WORKLOADS),
        *lock.HOSTS,
    )
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pinned(requirements: list[str]) -> dict[str, str]:
    found = {}
    for text in requirements:
        requirement = Requirement(text)
        (specifier,) = requirement.specifier
        assert specifier.operator == "=="
        found[audit.canonical(requirement.name)] = specifier.version
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_each_locked_version_has_hashes_and_no_index_is_named(name: str) -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", LOCKS[name].strip())
    assert len(entries) == len(audit.locked(LOCKS[name])) > 3
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in LOCKS[name]
    assert "--index" not in LOCKS[name]


def test_locked_versions_are_those_of_the_project() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    given = {
        "build": PROJECT["build-system"]["requires"],
        "image": [*PROJECT["project"]["dependencies"], *extras["tracing"], *extras["mcp"]],
        "dev": [*PROJECT["project"]["dependencies"], *extras["tracing"], *extras["dev"]],
        **{name.removesuffix(".txt"): list(given) for name, given in lock.WORKLOADS.items()},
        **{name: [re.sub(r"\[.*\]", "", each) for each in given] for name, given in lock.HOSTS.items()},
    }
    indirect = pinned((ROOT / "constraints.txt").read_text().split())
    for name, requirements in given.items():
        versions = audit.locked(LOCKS[name])
        wanted = pinned(requirements)
        assert {each: versions.get(each) for each in wanted} == wanted, f"run `make locks` for {name}"
        if f"{name}.txt" in lock.WORKLOADS:
            continue  # in environments of their own, without anything of ours
        held = {each: version for each, version in versions.items() if each in indirect}
        assert held == {each: indirect[each] for each in held}, f"run `make locks` for {name}"
    assert audit.locked(LOCKS["build"]).items() <= audit.locked(LOCKS["dev"]).items()


def weakness(name: str, events: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    affected = {
        "package": {"ecosystem": "PyPI", "name": name},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
    }
    return {"id": f"OSV-{name}", "summary": "It  breaks.", "affected": [affected], **more}


VERSIONS = {"some-tool": "1.5.0", "other": "2.0"}


@pytest.mark.parametrize(
    ("events", "known"),
    [
        ([{"introduced": "0"}, {"fixed": "1.5.0"}], False),
        ([{"introduced": "0"}, {"fixed": "1.5.1"}], True),
        ([{"introduced": "1.5"}], True),
        ([{"introduced": "1.5.1"}], False),
        ([{"introduced": "0"}, {"last_affected": "1.5.0"}], True),
        ([{"introduced": "0"}, {"last_affected": "1.4"}], False),
        ([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "1.4"}, {"fixed": "1.10"}], True),
        ([{"introduced": "1.4"}, {"fixed": "1.10"}, {"introduced": "0"}, {"fixed": "1.0"}], True),
        ([{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "1.6"}], False),
    ],
)
def test_a_range_holds_the_versions_that_it_says(events: list[dict[str, str]], known: bool) -> None:
    found = list(audit.findings(VERSIONS, [weakness("Some_Tool", events)]))
    assert bool(found) is known


def test_withdrawn_records_and_other_ecosystems_do_not_count() -> None:
    events = [{"introduced": "0"}]
    other = weakness("other", events)
    other["affected"][0]["package"]["ecosystem"] = "npm"
    records = [weakness("some-tool", events, withdrawn="2026-01-01T00:00:00Z"), other]
    assert list(audit.findings(VERSIONS, records)) == []


@pytest.mark.parametrize("form", ["list", "folder", "zip"])
def test_a_database_is_read_without_a_network(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text(
        "some-tool[extra]==1.5.0 ; python_version < '4' \\\n    --hash=sha256:00\nother==2.0 \\\n"
    )
    record = weakness("some.tool", [{"introduced": "0"}, {"fixed": "1.5.2"}])
    database = tmp_path / "database"
    if form == "list":
        database.write_text(json.dumps([record]))
    elif form == "folder":
        database.mkdir()
        (database / "one.json").write_text(json.dumps(record))
    else:
        with zipfile.ZipFile(database, "w") as archive:
            archive.writestr("one.json", json.dumps(record))
    assert audit.main([str(database), str(lock)]) == 1
    told = capsys.readouterr()
    assert told.out == "some-tool 1.5.0: OSV-some.tool, fixed in 1.5.2: It breaks.\n"
    assert told.err == "2 versions compared: 1 known weaknesses\n"


def test_a_database_that_cannot_be_read_is_no_good_news(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "database.json"
    assert audit.main([str(database)]) == 2
    database.write_text('{"no": "record"}')
    assert audit.main([str(database)]) == 2
    assert audit.main([]) == 2
    assert "not in the OSV format" in capsys.readouterr().err


def test_nothing_is_known_of_an_empty_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = tmp_path / "database.json"
    database.write_text("[]")
    assert audit.main([str(database)]) == 0
    assert "no known weaknesses" in capsys.readouterr().err


def test_files_of_others_in_the_web_ui_are_those_that_were_looked_at() -> None:
    assert vendored.changed() == []
    assert {each.name for each in vendored.FILES} == {each.name for each in vendored.STATIC.glob("xterm*")}
