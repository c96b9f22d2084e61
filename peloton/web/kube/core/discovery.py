"""Discovery: which groups, versions and kinds are served, in the older form and in the aggregated one."""

from __future__ import annotations

from peloton import __version__
from peloton.web.kube.core.kinds import KINDS, Kind
from peloton.web.kube.core.values import Object

MINOR = 34
"""The minor version of Kubernetes whose API this is like."""
AGGREGATED = ("apidiscovery.k8s.io", "APIGroupDiscoveryList")


def version() -> Object:
    """Return what /version says."""
    return {
        "major": "1",
        "minor": str(MINOR),
        "gitVersion": f"v1.{MINOR}.0+peloton-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


def legacy_versions() -> Object:
    """Return what /api says of the group without a name."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups() -> Object:
    """Return what /apis says."""
    found = [_group(name) for name in _groups()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(name: str) -> Object | None:
    """Return what /apis/GROUP says; None for a group that is not served."""
    if name not in _groups():
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def resources(group_name: str, version_name: str) -> Object | None:
    """Return what /apis/GROUP/VERSION says; None for one that is not served."""
    kinds = [kind for kind in KINDS if (kind.group, kind.version) == (group_name, version_name)]
    if not kinds:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].api_version,
        "resources": [each for kind in kinds for each in _resources(kind)],
    }


def aggregated(legacy: bool, form: str) -> Object:
    """Return all of it in one document, of the group without a name or of the others.

    `form` is the version of the document: `v2` or `v2beta1`.
    """
    names = [""] if legacy else _groups()
    return {
        "kind": AGGREGATED[1],
        "apiVersion": f"{AGGREGATED[0]}/{form}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name, "creationTimestamp": None}
                if name
                else {"creationTimestamp": None},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [_discovered(kind) for kind in KINDS if kind.group == name],
                        "freshness": "Current",
                    }
                ],
            }
            for name in names
        ],
    }


def _groups() -> list[str]:
    return sorted({kind.group for kind in KINDS if kind.group})


def _group(name: str) -> Object:
    only = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [only], "preferredVersion": only}


def _resources(kind: Kind) -> list[Object]:
    found: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short:
        found["shortNames"] = list(kind.short)
    if kind.categories:
        found["categories"] = list(kind.categories)
    rows = [found]
    for name, of, verbs in kind.subresources:
        group_name, version_name, its_kind = of.rsplit("/", 2)
        row: Object = {
            "name": f"{kind.plural}/{name}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": its_kind,
            "verbs": list(verbs),
        }
        if group_name != kind.group:
            row |= {"group": group_name, "version": version_name}
        rows.append(row)
    return rows


def _discovered(kind: Kind) -> Object:
    found: Object = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short:
        found["shortNames"] = list(kind.short)
    if kind.categories:
        found["categories"] = list(kind.categories)
    below = []
    for name, of, verbs in kind.subresources:
        group_name, version_name, its_kind = of.rsplit("/", 2)
        response = {"group": group_name, "version": version_name, "kind": its_kind}
        below.append({"subresource": name, "responseKind": response, "verbs": list(verbs)})
    return {**found, "subresources": below} if below else found
