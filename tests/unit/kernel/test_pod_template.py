"""Pod templates: what they may say, how they are merged, and what jobs may set."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.pod_template import check_allowed, check_field, check_template, merge
from peloton.wire.pod_template import MAX_TEMPLATE_CHARACTERS, pod_template
from peloton.wire.v1alpha.job_config import job_config_of, job_spec_of
from peloton.wire.v1alpha.paths import v1alpha_path
from peloton.wire.validation.job import validated

TASK = {"name": "task"}
WHOLE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"labels": {"site": "x"}, "annotations": {"a/b": "c"}},
    "spec": {
        "serviceAccountName": "trainer",
        "securityContext": {"fsGroup": 7},
        "initContainers": [{"name": "fetch", "image": "i"}],
        "volumes": [{"name": "cache", "emptyDir": {}}],
        "containers": [{**TASK, "envFrom": [{"configMapRef": {"name": "x"}}], "tty": True}],
    },
}
REFUSED = [
    ({"status": {}}, "t: 'status: {}' is not metadata or spec"),
    ({"kind": "Deployment"}, "t: 'kind: Deployment' is not"),
    ([], "t: [] is not a mapping"),
    ({"spec": []}, "t.spec: [] is not a mapping"),
    ({"metadata": {"name": "x"}}, "t.metadata.name: 'x' is not allowed: Peloton names the pods"),
    ({"metadata": {"labels": {"peloton.job_id": "x"}}}, "peloton.job_id is Peloton's"),
    ({"metadata": {"annotations": {"peloton/labels": "x"}}}, "peloton/labels is Peloton's"),
    ({"spec": {"nodeName": "n"}}, "t.spec.nodeName: 'n' is not allowed: a constraint of the task"),
    ({"spec": {"nodeSelector": {"a": "b"}}}, "t.spec.nodeSelector: "),
    ({"spec": {"affinity": {}}}, "t.spec.affinity: {} is not allowed: a constraint of the task"),
    ({"spec": {"restartPolicy": "Always"}}, "t.spec.restartPolicy: "),
    ({"spec": {"tolerations": []}}, "the setting kubernetes.tolerations"),
    ({"spec": {"containers": {}}}, "t.spec.containers: {} is not a list"),
    ({"spec": {"containers": ["x"]}}, "t.spec.containers[0]: 'x' is not a mapping"),
    ({"spec": {"containers": [TASK, {"name": "side"}]}}, "t.spec.containers[1].name: 'side' is not task"),
    ({"spec": {"containers": [{**TASK, "image": "x"}]}}, "t.spec.containers[0].image: 'x' is not allowed"),
    ({"spec": {"initContainers": [{"resources": {}}]}}, "t.spec.initContainers[0].resources: "),
    ({"spec": {"volumes": [{"name": "secrets"}]}}, "t.spec.volumes[0].name: 'secrets' is not another name"),
    ({"spec": {"volumes": [{"name": "v12"}]}}, "t.spec.volumes[0].name: "),
]


def test_a_template_with_nothing_of_pelotons_own_is_taken() -> None:
    check_template(WHOLE, "t")
    check_template({}, "t")


@pytest.mark.parametrize(("template", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_a_field_of_pelotons_own_is_refused_by_its_path(template: object, told: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        check_template(template, "t")
    assert told in str(error.value)


def test_merging_leaves_both_as_they_are_and_keeps_named_elements_apart() -> None:
    over: dict[str, Any] = {
        "metadata": {"labels": {"own": "y"}},
        "spec": {
            "volumes": [{"name": "v0", "hostPath": {}}, {"name": "cache", "hostPath": {}}],
            "containers": [{**TASK, "env": [{"name": "A", "value": "1"}], "image": "i"}],
            "securityContext": {"runAsUser": 1},
        },
    }
    before = copy.deepcopy((WHOLE, over))
    merged = merge(WHOLE, over)
    assert (WHOLE, over) == before
    spec = merged["spec"]
    assert merged["metadata"]["labels"] == {"site": "x", "own": "y"}
    assert spec["volumes"] == over["spec"]["volumes"], "the upper one replaces the one of its name"
    assert spec["containers"] == [{**WHOLE["spec"]["containers"][0], **over["spec"]["containers"][0]}]
    assert spec["securityContext"] == {"fsGroup": 7, "runAsUser": 1}
    assert spec["serviceAccountName"] == "trainer"
    assert merge(WHOLE, {}) == WHOLE == merge({}, WHOLE)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            [],
            "t.metadata.labels.site: 'x' is not allowed: kubernetes.job_template_fields lets jobs set no",
        ),
        (
            ["metadata"],
            "t.spec.serviceAccountName: 'trainer' is not one of the fields that jobs may set: metadata",
        ),
        (["metadata", "spec.serviceAccount"], "t.spec.serviceAccountName: "),
        (["metadata", "spec"], ""),
    ],
)
def test_what_jobs_may_set(fields: list[str], told: str) -> None:
    if not told:
        check_allowed(WHOLE, fields, "t")
        return
    with pytest.raises(InvalidArgument) as error:
        check_allowed(WHOLE, fields, "t")
    assert told in str(error.value)


def test_the_name_of_the_container_needs_no_permission() -> None:
    template = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{**TASK, "tty": True}]}}
    check_allowed(template, ["spec.containers.tty"], "t")
    with pytest.raises(InvalidArgument, match=r"t\.spec\.containers\[0\]\.tty"):
        check_allowed(template, ["spec.containers.stdin"], "t")


@pytest.mark.parametrize(
    "field", ["metadata.annotations", "spec.containers.env", "spec.volumes", "spec.hostIPC"]
)
def test_fields_that_jobs_may_be_given(field: str) -> None:
    check_field(field)


@pytest.mark.parametrize(
    "field", ["", "spec", "metadata.name", "status.phase", "spec.nodeName", "spec.containers.image"]
)
def test_fields_that_no_template_may_have(field: str) -> None:
    with pytest.raises(ValueError, match=r"no field of a template|cannot be set by any template"):
        check_field(field)


# Texts.


def test_a_text_is_yaml_or_json() -> None:
    assert pod_template("") == {} == pod_template("  \n")
    assert pod_template("spec: {hostIPC: true}") == pod_template('{"spec": {"hostIPC": true}}')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("spec: [", "podTemplate: "),
        ("a: &a {}\nspec: *a", "aliases are not taken"),
        ("spec: {nodeName: x}", "podTemplate.spec.nodeName: "),
        ("spec: {hostname: 2026-01-01}", "podTemplate.spec.hostname: "),
        ("spec: {1: x}", "podTemplate.spec: 1 is not a name, in quotes"),
        ("[" * 20_000, "podTemplate: "),
        ("#" * (MAX_TEMPLATE_CHARACTERS + 1), "32 KiB at most"),
        ("!!python/object/apply:os.getcwd []", "podTemplate: "),
    ],
)
def test_texts_that_are_no_templates(text: str, told: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        pod_template(text)
    assert told in str(error.value)


def config(template: str) -> job_pb2.JobConfig:
    made = job_pb2.JobConfig(name="j", type=job_pb2.SERVICE, instanceCount=1)
    made.defaultConfig.command.value = "true"
    made.defaultConfig.resource.cpuLimit = 1
    made.defaultConfig.podTemplate = template
    return made


def test_a_job_with_a_field_of_pelotons_own_is_refused_at_its_creation() -> None:
    validated(config("spec: {hostname: a}"))
    with pytest.raises(InvalidArgument, match=r"defaultConfig\.podTemplate\.spec\.restartPolicy: 'Always'"):
        validated(config("spec: {restartPolicy: Always}"))


def test_v1alpha_has_it_too_and_leaves_the_names_of_kubernetes_as_they_are() -> None:
    made = config("spec: {hostname: a}")
    spec = job_spec_of(made)
    assert spec.default_spec.pod_template == "spec: {hostname: a}"
    assert job_config_of(spec).defaultConfig.podTemplate == "spec: {hostname: a}"
    path = v1alpha_path("defaultConfig.podTemplate.spec.restartPolicy")
    assert path == "default_spec.pod_template.spec.restartPolicy"
