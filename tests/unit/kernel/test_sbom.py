"""The software bill of materials has every part."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tools.sbom import canonical, sbom

ROOT = Path(__file__).parents[3]


def test_every_dependency_is_in_it_and_none_of_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    made = {each["name"]: each["version"] for each in sbom()["components"]}
    for text in project["dependencies"]:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            assert requirement.specifier.contains(made[canonical(requirement.name)]), text
    assert "cffi" in made  # of cryptography: indirect
    assert not {"pytest", "mypy", "ruff"} & made.keys()
