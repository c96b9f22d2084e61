"""What `kubectl create` sends: protobuf, recorded from kubectl 1.32.4 (1.35.4 sends the same for Jobs)."""

from __future__ import annotations

import base64

import pytest

from peloton.web.kube.core.protobufs import LARGEST_BYTES, PROTOBUF, parse
from tests.unit.kube.world import DEPLOYMENTS, JOBS, World

JOB_BODY = base64.b64decode(
    "azhzAAoPCghiYXRjaC92MRIDSm9iEowBChgKBG9uY2USABoEdGVhbSIAKgAyADgAQgASZjJkChAKABIAGgAiACoAMgA4"
    "AEIAElASLQoEb25jZRIHYnVzeWJveBoEZWNobxoCaGkqAEIAagByAIABAIgBAJABAKIBABoFTmV2ZXIyAEIASgBSAFgA"
    "YABoAIIBAIoBAJoBAMIBABoIIAAoADAAOgAaACIA"
)
DEPLOYMENT_BODY = base64.b64decode(
    "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50EtABCiUKBG1hZGUSABoEdGVhbSIAKgAyADgAQgBaCwoDYXBwEgRtYWRl"
    "EpgBCAISDQoLCgNhcHASBG1hZGUafQodCgASABoAIgAqADIAOABCAFoLCgNhcHASBG1hZGUSXBI+CgdidXN5Ym94Egdi"
    "dXN5Ym94GgVzbGVlcBoDNjAwKgAyCgoAEAAYUCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEA"
    "igEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoAIgA="
)
"""kubectl create job once --image=busybox -- echo hi;
kubectl create deployment made --image=busybox --replicas=2 --port=80 -- sleep 600"""


def test_a_job() -> None:
    container = {"name": "once", "image": "busybox", "command": ["echo", "hi"]}
    assert parse(JOB_BODY) == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once", "namespace": "team"},
        "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
    }


def test_a_deployment() -> None:
    labels = {"app": "made"}
    container = {
        "name": "busybox",
        "image": "busybox",
        "command": ["sleep", "600"],
        "ports": [{"containerPort": 80}],
    }
    assert parse(DEPLOYMENT_BODY) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "made", "namespace": "team", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def test_they_are_created() -> None:
    world = World()
    headers = {"content-type": PROTOBUF}
    made = world.client.post(JOBS, content=JOB_BODY, headers=headers)
    assert (made.status_code, made.json()["metadata"]["name"]) == (201, "once")
    refused = world.client.post(DEPLOYMENTS, content=DEPLOYMENT_BODY, headers=headers)
    assert refused.status_code == 422
    assert "spec.template.spec.containers[0].ports[0].hostPort" in refused.json()["message"]


def piece(number: int, data: bytes) -> bytes:
    """A field of a message, for short pieces."""
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def envelope(kind: bytes, raw: bytes) -> bytes:
    return b"k8s\0" + piece(1, piece(1, b"apps/v1") + piece(2, kind)) + piece(2, raw)


def test_numbers_and_amounts() -> None:
    amount = piece(1, piece(1, b"cpu") + piece(2, piece(1, b"100m")))
    resources = piece(8, amount)
    pod = piece(2, piece(2, resources))
    rolling = piece(2, piece(1, b"\x08\x00\x10\x02") + piece(2, b"\x08\x01\x10\x00" + piece(3, b"10%")))
    spec = b"\x08\x00" + b"\x28\x00" + b"\x38\x01" + piece(3, pod) + piece(4, rolling)
    assert parse(envelope(b"Deployment", piece(2, spec)))["spec"] == {
        "replicas": 0,
        "paused": True,
        "template": {"spec": {"containers": [{"resources": {"limits": {"cpu": "100m"}}}]}},
        "strategy": {"rollingUpdate": {"maxUnavailable": 2, "maxSurge": "10%"}},
    }


def test_a_negative_number_is_one() -> None:
    spec = b"\x08" + b"\xff" * 9 + b"\x01"
    assert parse(envelope(b"Deployment", piece(2, spec)))["spec"] == {"replicas": -1}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{}", "does not begin"),
        (b"", "does not begin"),
        (b"k8s\0" + b"\0" * LARGEST_BYTES, "512,000 bytes"),
        (envelope(b"ConfigMap", b""), "ConfigMap is not read"),
        (b"k8s\0", "no kind is not read"),
        (envelope(b"Job", piece(2, b"")) + piece(3, b"gzip"), "is not read"),
        (envelope(b"Job", piece(2, piece(11, b"x"))), "Job.spec.field 11"),
        (envelope(b"Job", piece(2, piece(6, piece(2, piece(13, b"x"))))), "Job.spec.template.spec.field 13"),
        (envelope(b"Job", piece(2, piece(1, b"x"))), "Job.spec.parallelism is not a number"),
        (envelope(b"Job", b"\x10\x05"), "Job.spec is a number"),
        (envelope(b"Job", b"\x12\x05"), "cut off"),
        (envelope(b"Job", b"\x12"), "cut off"),
        (envelope(b"Job", b"\xff" * 20), "cut off"),
        (envelope(b"Job", b"\x11\x05"), "unknown form"),
        (envelope(b"Job", piece(1, piece(1, b"\xff"))), "utf-8"),
    ],
)
def test_what_is_not_read_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("[", r"\[")):
        parse(data)
    answer = World().client.post(JOBS, content=data, headers={"content-type": PROTOBUF})
    assert answer.status_code == 400


def test_the_contents_of_a_secret_are_base64() -> None:
    entry = piece(1, b"password") + piece(2, b"\x00\xffword")
    found = parse(envelope(b"Secret", piece(2, entry) + piece(3, b"Opaque")))
    assert (found["data"], found["type"]) == ({"password": "AP93b3Jk"}, "Opaque")


def test_options_of_a_deletion() -> None:
    data = piece(2, piece(1, b"an id")) + piece(4, b"Background") + piece(5, b"All")
    found = parse(envelope(b"DeleteOptions", data))
    assert found["preconditions"] == {"uid": "an id"}
    assert (found["propagationPolicy"], found["dryRun"]) == ("Background", ["All"])
