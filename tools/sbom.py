"""Print the parts of an installed Peloton as a software bill of materials: CycloneDX 1.5, JSON.

python -m tools.sbom > sbom.json    # what the present environment has of Peloton's dependencies, direct
                                    # and indirect, without those of development
python tools/sbom.py --image        # everything in an image of Debian: all packages of Python and Debian's
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from packaging.requirements import Requirement

ROOT = "peloton"
FIELDS = r"--showformat=${Package}\t${Version}\t${Architecture}\n"


def canonical(name: str) -> str:
    """Return a name as package URLs have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(of: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """Iterate over what a distribution needs here."""
    from packaging.requirements import Requirement  # an image does without it

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


def system_components(listed: str, release: str) -> Iterator[dict[str, Any]]:
    """Describe the interpreter and Debian's packages, as dpkg-query lists them with FIELDS."""
    version = platform.python_version()
    yield {
        "type": "application",
        "name": "python",
        "version": version,
        "purl": f"pkg:generic/python@{version}",
    }
    for line in sorted(listed.splitlines()):
        name, held, architecture = line.split("\t")
        url = f"pkg:deb/debian/{name}@{held}?arch={architecture}&distro={release}"
        yield {"type": "library", "bom-ref": url, "name": name, "version": held, "purl": url}


def sbom(found: Mapping[str, Distribution], more: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the bill of these distributions, Peloton's among them, and of `more` components."""
    own = component(ROOT, found[ROOT])
    components = [component(name, held) for name, held in sorted(found.items()) if name != ROOT]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**own, "type": "application"}},
        "components": [*components, *more],
    }


def image() -> dict[str, Any]:
    """Return the bill of the image that this runs in."""
    listed = subprocess.run(["dpkg-query", "--show", FIELDS], capture_output=True, text=True, check=True)
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    found = {canonical(each.name): each for each in distributions(path=sys.path[1:])}
    return sbom(found, list(system_components(listed.stdout, release)))


if __name__ == "__main__":
    print(json.dumps(image() if "--image" in sys.argv else sbom(parts()), indent=2))
