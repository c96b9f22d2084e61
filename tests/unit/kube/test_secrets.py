"""Secrets are written, and never read back; pods take files and variables of them."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from peloton.calls import web
from peloton.errors import Refused
from peloton.web.kube.core.jobs import job_config
from peloton.web.kube.core.manifests import LAST_APPLIED
from peloton.web.kube.core.patches import MERGE, STRATEGIC
from peloton.web.kube.core.refusals import Refusal

from .world import (
    CRON_JOBS,
    DEPLOYMENTS,
    JOBS,
    POOL,
    SECRETS,
    World,
    cron_manifest,
    deployment_manifest,
    job_manifest,
)

DB = f"{SECRETS}/db"
WORD = "correct horse"
KNOWN = {"db": ("password", "user.name"), "tls": ("tls.crt",)}


@pytest.fixture
def world() -> World:
    return World()


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(**fields: Any) -> dict[str, Any]:
    found = {"data": {"password": coded(WORD)}, "stringData": {"user": "ann"}, **fields}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, **found}


def causes(found: Any) -> dict[str, str]:
    assert found.status_code == 422, found.text
    return {cause["field"]: cause["message"] for cause in found.json()["details"]["causes"]}


def test_a_secret_is_shown_without_its_contents(world: World) -> None:
    manifest = secret()
    manifest["metadata"] |= {"labels": {"app": "db"}, "annotations": {LAST_APPLIED: str(manifest), "a": "b"}}
    made = world.create(SECRETS, manifest)
    assert made.status_code == 201
    found = world.client.get(DB)
    assert made.json() == found.json()
    assert found.json()["data"] == {"password": "", "user": ""}
    assert (found.json()["type"], found.json()["metadata"]["labels"]) == ("Opaque", {"app": "db"})
    assert found.json()["metadata"]["annotations"] == {"a": "b"}  # kubectl notes the contents in the other
    assert world.secrets["db"][1] == {"password": WORD.encode(), "user": b"ann"}
    for text in (found.text, world.client.get(SECRETS).text, made.text):
        assert coded(WORD) not in text and WORD not in text
    assert world.create(SECRETS, manifest).json()["reason"] == "AlreadyExists"


def test_a_patch_keeps_what_it_does_not_change(world: World) -> None:
    world.create(SECRETS, secret())
    for kind in (MERGE, STRATEGIC):
        found = world.client.patch(DB, json={"data": {"user": coded(kind)}}, headers={"content-type": kind})
        assert found.status_code == 200
        assert world.secrets["db"][1] == {"password": WORD.encode(), "user": kind.encode()}
    version = found.json()["metadata"]["resourceVersion"]
    world.client.patch(DB, json={"data": {"user": None}}, headers={"content-type": MERGE})
    assert world.secrets["db"][1] == {"password": WORD.encode()}
    stale = {**secret(), "metadata": {"name": "db", "resourceVersion": version}}
    assert world.client.put(DB, json=stale).status_code == 409


def test_a_dry_run_and_the_end(world: World) -> None:
    assert world.create(SECRETS, secret(), dryRun="All").status_code == 201
    assert not world.secrets
    world.create(SECRETS, secret())
    assert world.client.delete(DB, params={"dryRun": "All"}).status_code == 200
    assert world.secrets
    assert world.client.delete(DB).json()["status"] == "Success"
    assert not world.secrets
    assert world.client.delete(DB).status_code == 404


@pytest.mark.parametrize(
    ("fields", "path", "text"),
    [
        ({"data": {"a": "not base64!"}}, "data.a", "not base64"),
        ({"data": {"a": ""}}, "data.a", "empty"),
        ({"stringData": {"a": 1}}, "stringData.a", "an integer is not a string"),
        ({"data": ["a"]}, "data", "a list is not an object"),
        ({"immutable": "yes"}, "immutable", "a string is not a boolean"),
        ({"dta": {"a": "b"}}, "dta", "does not keep"),
    ],
)
def test_what_is_refused(world: World, fields: dict[str, Any], path: str, text: str) -> None:
    assert text in causes(world.create(SECRETS, secret(**fields)))[path]


def test_its_type_is_kept(world: World) -> None:
    world.create(SECRETS, secret())
    found = world.client.patch(DB, json={"type": "other"}, headers={"content-type": MERGE})
    assert causes(found) == {"type": "field is immutable"}


def test_a_server_without_secrets_says_so(world: World) -> None:
    def refuse(request: Any) -> Any:
        raise Refused("secrets are not enabled")

    world.cluster.answers[web.CREATE_SECRET] = refuse
    found = world.create(SECRETS, secret())
    assert (found.status_code, found.json()["message"]) == (403, "secrets are not enabled")


def with_pod(container: dict[str, Any], **pod: Any) -> dict[str, Any]:
    manifest = job_manifest()
    spec = manifest["spec"]["template"]["spec"]
    spec.update(pod)
    spec["containers"][0].update(container)
    return manifest


def reference(key: str, name: str = "db", **more: Any) -> list[dict[str, Any]]:
    return [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": name, "key": key, **more}}}]


def test_a_variable_is_read_by_a_shell() -> None:
    made = job_config(with_pod({"env": reference("password")}), "team", POOL, KNOWN)
    (file,) = made.secret_files
    assert (file.path, file.name, file.key) == ("/etc/peloton-secrets/db/password", "db", "password")
    script = made.config.defaultConfig.command.arguments[2]
    assert f"p={file.path};" in script and 'PASSWORD="$(cat "$p")"' in script and "export PASSWORD" in script
    assert list(made.config.defaultConfig.command.arguments[4:]) == ["echo", "hello"]


def test_all_parts_are_variables_but_for_names_that_no_shell_exports() -> None:
    env = [{"prefix": "DB_", "secretRef": {"name": "db"}}]
    made = job_config(with_pod({"envFrom": env}), "team", POOL, KNOWN)
    assert [file.key for file in made.secret_files] == ["password"]
    assert "user.name: no variable" in made.warnings[0]


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ({}, {"/etc/db/password": "password", "/etc/db/user.name": "user.name"}),
        ({"items": [{"key": "password", "path": "a/pw"}]}, {"/etc/db/a/pw": "password"}),
        ({"items": [{"key": "other", "path": "x"}], "optional": True}, {}),
        ({"secretName": "missing", "optional": True}, {}),
    ],
)
def test_a_volume_has_files(source: dict[str, Any], files: dict[str, str]) -> None:
    volumes = [{"name": "v", "secret": {"secretName": "db", **source}}]
    mounts = [{"name": "v", "mountPath": "/etc/db/", "readOnly": True}]
    made = job_config(with_pod({"volumeMounts": mounts}, volumes=volumes), "team", POOL, KNOWN)
    assert {file.path: file.key for file in made.secret_files} == files
    config = made.config.defaultConfig
    assert not config.container.volumes
    assert bool(files) <= config.HasField("container")


@pytest.mark.parametrize(
    ("container", "volumes", "field", "text"),
    [
        (
            {"env": reference("password", "none")},
            [],
            "env[0].valueFrom.secretKeyRef.name",
            "no Secret 'none'",
        ),
        (
            {"env": reference("pasword")},
            [],
            "env[0].valueFrom.secretKeyRef.key",
            "has no 'pasword', but pass",
        ),
        ({"env": reference("")}, [], "env[0].valueFrom.secretKeyRef.key", "has no ''"),
        ({"envFrom": [{"configMapRef": {"name": "a"}}]}, [], "envFrom[0].secretRef", "no ConfigMaps"),
        ({"env": reference("password"), "args": ["$(PASSWORD)"]}, [], "args", "use $PASSWORD in a shell"),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "etc"}]},
            [{"name": "v", "secret": {"secretName": "db"}}],
            "volumeMounts[0].mountPath",
            "no absolute path",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/e"}]},
            [{"name": "v", "secret": {"secretName": "db", "items": [{"key": "password", "path": "../a"}]}}],
            "volumeMounts[0].name",
            "no path below",
        ),
    ],
)
def test_uses_that_are_refused(
    container: dict[str, Any], volumes: list[dict[str, Any]], field: str, text: str
) -> None:
    with pytest.raises(Refusal) as caught:
        job_config(with_pod(container, volumes=volumes), "team", POOL, KNOWN)
    found = {cause["field"]: cause["message"] for cause in caught.value.details["causes"]}
    assert text in found[f"spec.template.spec.containers[0].{field}"]


def test_a_missing_secret_of_a_volume_is_refused() -> None:
    with pytest.raises(Refusal, match=r"volumes\[0\].secret.secretName: the namespace has no Secret 'db'"):
        job_config(with_pod({}, volumes=[{"name": "v", "secret": {"secretName": "db"}}]), "team", POOL)


def test_too_many_parts_are_refused() -> None:
    many = {f"s{i}": tuple(f"key{k}" for k in range(60)) for i in range(2)}
    env = [{"prefix": f"P{i}_", "secretRef": {"name": f"s{i}"}} for i in range(2)]
    with pytest.raises(Refusal, match="a pod takes at most 100 parts of Secrets"):
        job_config(with_pod({"envFrom": env}), "team", POOL, many)


def test_jobs_and_services_take_their_secrets(world: World) -> None:
    world.create(SECRETS, secret())
    made = world.create(JOBS, with_pod({"env": reference("password")}))
    assert made.status_code == 201, made.text
    service = deployment_manifest()
    container = service["spec"]["template"]["spec"]["containers"][0]
    container["env"] = reference("user")
    assert world.create(DEPLOYMENTS, service).status_code == 201
    container["env"][0]["name"] = "USER"
    assert world.client.put(f"{DEPLOYMENTS}/web", json=service).status_code == 200
    assert [(each.source.name, each.source.key) for each in world.taken] == [
        ("db", "password"), ("db", "user"), ("db", "user")
    ]  # fmt: skip
    del container["env"]
    assert world.client.put(f"{DEPLOYMENTS}/web", json=service).status_code == 200
    assert (len(world.updates[-1].secrets), world.updates[-1].drop_other_secrets) == (0, True)


def test_a_schedule_takes_none(world: World) -> None:
    world.create(SECRETS, secret())
    manifest = cron_manifest()
    template = manifest["spec"]["jobTemplate"]["spec"]["template"]
    template["spec"]["containers"][0]["env"] = reference("password")
    found = causes(world.create(CRON_JOBS, manifest))
    assert found == {"spec.jobTemplate.spec.template.spec": "runs of a schedule take no Secrets"}
