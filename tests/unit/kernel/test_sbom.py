"""The software bill of materials has every part."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tools.sbom import canonical, parts, sbom, system_components

ROOT = Path(__file__).parents[3]


def test_every_dependency_is_in_it_and_none_of_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    made = {each["name"]: each["version"] for each in sbom(parts())["components"]}
    for text in project["dependencies"]:
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            assert requirement.specifier.contains(made[canonical(requirement.name)]), text
    assert "cffi" in made  # of cryptography: indirect
    assert not {"pytest", "mypy", "ruff"} & made.keys()


def test_an_image_has_debian_and_the_interpreter_too() -> None:
    listed = "libc6\t2.36-9+deb12u14\tamd64\nadduser\t3.134\tall\n"
    python, *packages = system_components(listed, "bookworm")
    assert python["name"] == "python" and python["version"] in python["purl"]
    assert [each["purl"] for each in packages] == [
        "pkg:deb/debian/adduser@3.134?arch=all&distro=bookworm",
        "pkg:deb/debian/libc6@2.36-9+deb12u14?arch=amd64&distro=bookworm",
    ]
