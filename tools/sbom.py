"""Print the parts of an installed Peloton as a software bill of materials: CycloneDX 1.5, JSON.

    python -m tools.sbom > sbom.json

It has what the present environment has of Peloton's dependencies, direct and indirect, without those of
development.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from packaging.requirements import Requirement

ROOT = "peloton"


def canonical(name: str) -> str:
    """Return a name as package URLs have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(of: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """Iterate over what a distribution needs here."""
    for text in of.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            yield requirement


def parts(root: str = ROOT) -> dict[str, Distribution]:
    """Return all distributions that one needs, itself included, by name."""
    found: dict[str, Distribution] = {}
    wanted: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        name, extras = wanted.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            held = found.setdefault(name, distribution(name))
        except PackageNotFoundError:
            sys.exit(f"sbom: {name} is not installed here")
        wanted += [(canonical(each.name), frozenset(each.extras)) for each in required(held, extras)]
    return found


def component(name: str, held: Distribution) -> dict[str, Any]:
    """Describe a distribution."""
    url = f"pkg:pypi/{name}@{held.version}"
    described: dict[str, Any] = {"type": "library", "bom-ref": url, "name": name, "version": held.version}
    texts = [held.metadata[key] for key in ("License-Expression", "License") if key in held.metadata]
    text = texts[0] if texts else ""
    if text and "\n" not in text:
        described["licenses"] = [{"license": {"name": text[:200]}}]
    return {**described, "purl": url}


def sbom() -> dict[str, Any]:
    """Return the whole bill."""
    found = parts()
    own = component(ROOT, found[ROOT])
    components = [component(name, held) for name, held in sorted(found.items()) if name != ROOT]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": components,
    }


if __name__ == "__main__":
    print(json.dumps(sbom(), indent=2))
