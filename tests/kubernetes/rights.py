"""Grants rights of hostmgr on a real API server, and takes each away in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from peloton.kubernetes.access import Access, from_kubeconfig
from peloton.kubernetes.client import ApiClient, ApiError
from tests.contract.backend.systems import NAMESPACE
from tests.kubernetes.real import RealKubernetes

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
FILE = FOLDER / "rbac.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:peloton-hostmgr"
SECONDS = 60.0
FORBIDDEN, EXISTS = 403, 409


class Right(NamedTuple):
    """A verb of a rule."""

    file: Path
    document: int
    """Its number in the file."""
    rule: int
    """The number of the rule in the document."""
    verb: str


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


def rights(file: Path) -> list[Right]:
    return [
        Right(file, number, rule, verb)
        for number, document in enumerate(documents(file))
        for rule, each in enumerate(document.get("rules") or ())
        for verb in each["verbs"]
    ]


def named(right: Right) -> str:
    document = documents(right.file)[right.document]
    resource = document["rules"][right.rule]["resources"][0].replace("/", "-")
    return f"{right.verb}-{resource}-{document['metadata'].get('namespace', 'everywhere')}"


def path_of(document: dict[str, Any]) -> str:
    """Return where objects of its kind are."""
    kinds = {"Namespace": "/api/v1", "ServiceAccount": "/api/v1"}
    namespace = document["metadata"].get("namespace")
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{kinds.get(document['kind'], RBAC)}{within}/{document['kind'].lower()}s"


class Rights:
    """A cluster on which hostmgr has the rights of some files."""

    def __init__(self, system: RealKubernetes, *files: Path) -> None:
        self._files = files
        self.admin = from_kubeconfig(system.kubeconfig)
        self.access = asyncio.run(self._grant())

    async def _grant(self) -> Access:
        async with ApiClient(self.admin) as client:
            for document in [each for file in self._files for each in documents(file)]:
                try:
                    await client.call("POST", path_of(document), document)
                except ApiError as error:
                    assert error.status == EXISTS, error
            path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/peloton-hostmgr/token"
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
            token = (await client.call("POST", path, body))["status"]["token"]
        return Access(self.admin.server, self.admin.tls, token, namespace=NAMESPACE)

    async def set(self, right: Right, allowed: bool) -> None:
        """Take a right away, or give it back; wait until that counts."""
        file, number, rule, verb = right
        document = documents(file)[number]
        given = document["rules"][rule]
        if not allowed:
            given["verbs"].remove(verb)
            if not given["verbs"]:
                document["rules"].remove(given)
        resource, _, inner = given["resources"][0].partition("/")
        asked = {
            "verb": verb,
            "resource": resource,
            "subresource": inner,
            "group": given["apiGroups"][0],
            "namespace": document["metadata"].get("namespace", ""),
            "name": (given.get("resourceNames") or [""])[0],
        }
        review = {"spec": {"user": ACCOUNT, "resourceAttributes": asked}}
        async with ApiClient(self.admin) as client, asyncio.timeout(SECONDS):
            await client.call("PUT", f"{path_of(document)}/{document['metadata']['name']}", document)
            while True:
                path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
                found = (await client.call("POST", path, review))["status"].get("allowed", False)
                if found == allowed:
                    return
                await asyncio.sleep(0.02)

    async def clear(self) -> None:
        """Delete what a test has left, so that the next one has all nodes."""
        async with ApiClient(self.admin) as client:
            for kind in ("pods", "secrets", "persistentvolumeclaims"):
                path, now = f"/api/v1/namespaces/{NAMESPACE}/{kind}", {"gracePeriodSeconds": 0}
                await client.call("DELETE", path, now)


def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what the API server refuses for want of a right."""
    found: list[str] = []

    class Noted(ApiError):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            if self.status == FORBIDDEN:
                found.append(str(self))

    monkeypatch.setattr("peloton.kubernetes.client.ApiError", Noted)
    return found


async def is_refused(
    granted: Rights, refused: list[str], right: Right, work: Coroutine[Any, Any, None]
) -> None:
    """Do work without a right. Raises AssertionError where nothing is refused."""
    await granted.set(right, allowed=False)
    task = asyncio.ensure_future(work)
    try:
        async with asyncio.timeout(SECONDS):
            while not refused and not task.done():  # noqa: ASYNC110 - nothing tells it
                await asyncio.sleep(0.02)
        assert refused, f"without it, nothing is refused: {task}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await granted.set(right, allowed=True)
        await granted.clear()
