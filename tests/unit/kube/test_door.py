"""Requests of clients of Kubernetes, and what they are answered with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import WebSocketDenialResponse

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.calls.web import CREATE_JOB, QUERY_JOBS
from peloton.errors import PermissionDenied
from tests.unit.web.fake import ORIGIN

from .world import DEPLOYMENTS, JOBS, PODS, POOL, World, deployment_manifest, job_manifest

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@pytest.fixture
def world() -> World:
    return World()


def watched(world: World, path: str, **query: str) -> list[dict[str, Any]]:
    """The events of a watch that ends at once."""
    found = world.client.get(path, params={"watch": "true", "timeoutSeconds": "0", **query})
    assert found.status_code == 200
    return [json.loads(line) for line in found.text.splitlines()]


def test_a_job_is_created_and_comes_back(world: World) -> None:
    manifest = job_manifest(completions=2, parallelism=2)
    manifest["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    made = world.create(JOBS, manifest)
    assert made.status_code == 201
    (job_id,) = world.jobs
    found = world.client.get(f"{JOBS}/hello").json()
    assert found["metadata"]["uid"] == job_id
    assert found["metadata"]["annotations"] == manifest["metadata"]["annotations"]
    assert found["metadata"]["creationTimestamp"] == "2026-01-31T12:00:00Z"
    assert found["spec"]["template"] == manifest["spec"]["template"]
    assert found["status"]["active"] == 2
    assert world.create(JOBS, manifest).json()["reason"] == "AlreadyExists"


def test_a_job_that_has_ended(world: World) -> None:
    world.create(JOBS, job_manifest(completionMode="Indexed", completions=3, parallelism=3))
    world.end("SUCCEEDED")
    status = world.client.get(f"{JOBS}/hello").json()["status"]
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [("Complete", "True")]
    assert (status["completedIndexes"], status["completionTime"]) == ("0-2", "2026-01-31T12:05:00Z")


def test_what_the_path_says_need_not_be_in_the_object(world: World) -> None:
    """The official Python client leaves kind and version out."""
    manifest = {key: part for key, part in job_manifest().items() if key not in ("apiVersion", "kind")}
    made = world.create(JOBS, manifest).json()
    assert (made["apiVersion"], made["kind"]) == ("batch/v1", "Job")
    assert world.create(JOBS, {**manifest, "kind": "Pod"}).status_code == 400


def test_the_status_is_read_as_the_object(world: World) -> None:
    world.create(JOBS, job_manifest())
    found = world.client.get(f"{JOBS}/hello/status")
    assert found.json() == world.client.get(f"{JOBS}/hello").json()
    for call in (world.client.put, world.client.patch):
        assert call(f"{JOBS}/hello/status", json={}).status_code == 405


def test_an_invalid_job_is_refused_with_causes(world: World) -> None:
    found = world.create(JOBS, job_manifest(maxFailedIndexes=1))
    assert found.status_code == 422
    status = found.json()
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "Invalid", 422)
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.maxFailedIndexes"]
    assert not world.jobs


def test_a_dry_run_changes_nothing(world: World) -> None:
    found = world.create(JOBS, job_manifest(), dryRun="All")
    assert (found.status_code, found.json()["metadata"]["name"]) == (201, "hello")
    assert not world.jobs
    assert world.create(JOBS, job_manifest(), dryRun="Some").status_code == 400


def test_a_warning_is_a_header(world: World) -> None:
    found = world.create(JOBS, job_manifest(activeDeadlineSeconds=5))
    assert found.headers["warning"].startswith('299 - "spec.activeDeadlineSeconds: ')


def test_a_name_is_made_of_its_beginning(world: World) -> None:
    manifest = job_manifest()
    manifest["metadata"] = {"generateName": "hello-"}
    found = world.create(JOBS, manifest).json()
    assert found["metadata"]["name"].startswith("hello-") and len(found["metadata"]["name"]) == 12


def test_a_job_of_another_api_has_its_id_as_its_name(world: World) -> None:
    config = job_pb2.JobConfig(name="native job", instanceCount=1)
    config.respoolID.value = POOL
    job_id = world.add(config, "12345678-0000-4000-8000-000000000000")
    (found,) = world.client.get(JOBS).json()["items"]
    assert found["metadata"]["name"] == job_id
    assert world.client.get(f"{JOBS}/{job_id}").json()["metadata"] == found["metadata"]
    (pod,) = world.client.get(PODS).json()["items"]
    assert world.client.get(f"{PODS}/{pod['metadata']['name']}").json() == pod


def test_pods_have_the_labels_of_their_job(world: World) -> None:
    world.create(JOBS, job_manifest(completions=2, parallelism=2))
    (job_id,) = world.jobs
    query = {"labelSelector": f"batch.kubernetes.io/controller-uid={job_id}"}
    pods = world.client.get(PODS, params=query).json()["items"]
    assert [pod["metadata"]["name"] for pod in pods] == [f"hello-{job_id[:5]}-{i}-1" for i in range(2)]
    assert pods[0]["metadata"]["ownerReferences"][0]["uid"] == job_id
    assert (pods[0]["status"]["phase"], pods[0]["spec"]["nodeName"]) == ("Running", "host-1")
    assert world.client.get(PODS, params={"fieldSelector": "status.phase=Failed"}).json()["items"] == []


def test_a_deleted_pod_is_another_run(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    pods = world.client.get(PODS).json()["items"]
    path = f"{PODS}/{pods[1]['metadata']['name']}"
    assert world.client.delete(path).status_code == 200
    uids = [pod["metadata"]["uid"] for pod in world.client.get(PODS).json()["items"]]
    assert uids[0] == pods[0]["metadata"]["uid"] and uids[1] != pods[1]["metadata"]["uid"]
    assert world.client.get(path).status_code == 404


def test_a_deleted_job_goes_when_it_has_ended(world: World) -> None:
    with world.client as client:
        world.create(JOBS, job_manifest())
        found = client.request("DELETE", f"{JOBS}/hello", json={"propagationPolicy": "Background"}).json()
        assert found["status"] == "Success"
        for _ in range(100):
            if client.get(f"{JOBS}/hello").status_code == 404:
                break
        assert not world.jobs


def test_pods_are_not_left_behind(world: World) -> None:
    world.create(JOBS, job_manifest())
    found = world.client.request("DELETE", f"{JOBS}/hello", json={"propagationPolicy": "Orphan"})
    assert found.status_code == 422 and world.jobs


def test_a_job_keeps_what_it_was_created_with(world: World) -> None:
    world.create(JOBS, job_manifest())
    kind = {"content-type": "application/merge-patch+json"}
    same = world.client.patch(f"{JOBS}/hello", content='{"spec": {"completions": null}}', headers=kind)
    assert same.status_code == 200
    other = world.client.patch(f"{JOBS}/hello", content='{"spec": {"completions": 2}}', headers=kind)
    assert (other.status_code, other.json()["reason"]) == (422, "Invalid")


def test_a_deployment_is_updated(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest(strategy={"rollingUpdate": {"maxUnavailable": 2}}))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "command": ["sleep", "5"]}]}}}}
    kind = {"content-type": "application/strategic-merge-patch+json"}
    found = world.client.patch(f"{DEPLOYMENTS}/web", content=json.dumps(patch), headers=kind)
    assert found.status_code == 200
    (update,) = world.updates
    assert update.update_spec.batch_size == 2
    assert list(update.spec.default_spec.containers[0].entrypoint.arguments) == ["sleep", "5"]
    assert found.json()["metadata"]["generation"] == 2
    assert found.json()["spec"]["template"]["spec"]["containers"][0]["command"] == ["sleep", "5"]


def test_what_changes_nothing_is_no_update(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    current = world.client.get(f"{DEPLOYMENTS}/web").json()
    assert world.client.put(f"{DEPLOYMENTS}/web", json=current).status_code == 200
    assert not world.updates


def test_a_stale_version_is_a_conflict(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    current = world.client.get(f"{DEPLOYMENTS}/web").json()
    current["spec"]["replicas"] = 5
    assert world.client.put(f"{DEPLOYMENTS}/web", json=current).status_code == 200
    found = world.client.put(f"{DEPLOYMENTS}/web", json=current)
    assert (found.status_code, found.json()["reason"]) == (409, "Conflict")


def test_a_paused_deployment_waits(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    kind = {"content-type": "application/strategic-merge-patch+json"}
    world.client.patch(f"{DEPLOYMENTS}/web", content='{"spec": {"paused": true}}', headers=kind)
    world.client.patch(f"{DEPLOYMENTS}/web", content='{"spec": {"paused": null}}', headers=kind)
    assert [update.update_spec.start_paused for update in world.updates] == [True, False]


def test_the_scale_of_a_deployment(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    scale = world.client.get(f"{DEPLOYMENTS}/web/scale").json()
    assert (scale["spec"]["replicas"], scale["status"]["selector"]) == (2, "app=web")
    scale["spec"]["replicas"] = 4
    assert world.client.put(f"{DEPLOYMENTS}/web/scale", json=scale).json()["spec"]["replicas"] == 4
    assert world.client.get(f"{DEPLOYMENTS}/web").json()["spec"]["replicas"] == 4
    kind = {"content-type": "application/merge-patch+json"}
    found = world.client.patch(f"{DEPLOYMENTS}/web/scale", content='{"spec": {"replicas": 0}}', headers=kind)
    assert found.status_code == 422


def test_a_watch_tells_what_is_there_and_what_changes(world: World) -> None:
    world.create(JOBS, job_manifest())
    assert [event["type"] for event in watched(world, JOBS)] == ["ADDED"]
    version = world.client.get(JOBS).json()["metadata"]["resourceVersion"]
    assert watched(world, JOBS, resourceVersion=version) == []
    world.end("FAILED")
    (event,) = watched(world, JOBS, resourceVersion=version)
    assert (event["type"], event["object"]["status"]["failed"]) == ("MODIFIED", 1)
    world.jobs.clear()
    kinds = [event["type"] for event in watched(world, JOBS, resourceVersion=version)]
    assert kinds == ["MODIFIED", "DELETED"]


def test_a_watch_from_an_old_version_has_expired(world: World) -> None:
    (event,) = watched(world, JOBS, resourceVersion="1")
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_a_list_by_watch_ends_with_a_bookmark(world: World) -> None:
    world.create(JOBS, job_manifest())
    query = {
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    added, mark = watched(world, JOBS, **query)
    assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_lists_are_tables_where_they_are_wanted(world: World) -> None:
    world.create(JOBS, job_manifest())
    found = world.client.get(JOBS, headers={"accept": TABLE}).json()
    assert (found["kind"], found["rows"][0]["cells"][:3]) == ("Table", ["hello", "Running", "0/1"])
    assert found["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_events_of_a_pod(world: World) -> None:
    world.create(JOBS, job_manifest())
    (pod,) = world.client.get(PODS).json()["items"]
    query = {"fieldSelector": f"involvedObject.name={pod['metadata']['name']},involvedObject.kind=Pod"}
    found = world.client.get("/api/v1/namespaces/team/events", params=query).json()["items"]
    assert [event["reason"] for event in found] == ["Started", "Queued"]


def test_namespaces_are_pools(world: World) -> None:
    (found,) = world.client.get("/api/v1/namespaces").json()["items"]
    assert (found["metadata"]["name"], found["metadata"]["uid"]) == ("team", POOL)
    gone = world.client.get("/apis/batch/v1/namespaces/other/jobs").json()
    assert gone["reason"] == "NotFound"


def test_discovery(world: World) -> None:
    client = world.client
    assert client.get("/api").json()["versions"] == ["v1"]
    assert "services" in client.get("/api").json()
    found = client.get("/api", headers={"accept": DISCOVERY})
    assert found.headers["content-type"].endswith("as=APIGroupDiscoveryList")
    assert found.json()["items"][0]["versions"][0]["version"] == "v1"
    assert [group["name"] for group in client.get("/apis").json()["groups"]] == [
        "apps",
        "batch",
        "scheduling.k8s.io",
    ]
    names = [each["name"] for each in client.get("/apis/apps/v1").json()["resources"]]
    assert names == [
        "deployments",
        "deployments/scale",
        "deployments/status",
        "daemonsets",
        "daemonsets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
        "replicasets",
        "controllerrevisions",
    ]
    assert client.get("/version").text == client.get("/version", headers={"accept": "*/*"}).text
    assert client.get("/version", headers={"accept": "application/json, */*"}).json()["major"] == "1"
    paths = client.get("/openapi/v3").json()["paths"]
    document = client.get(paths["apis/batch/v1"]["serverRelativeURL"]).json()
    patch = document["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]["patch"]
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/apis/other/v1/things", 404),
        ("GET", "/apis/other", 404),
        ("GET", f"{JOBS}/gone", 404),
        ("GET", f"{PODS}/gone", 404),
        ("GET", f"{PODS}?labelSelector=a+in+b", 400),
        ("GET", f"{PODS}?fieldSelector=spec.x=1", 400),
        ("POST", PODS, 405),
        ("DELETE", JOBS, 405),
        ("GET", f"{PODS}/x/attach", 501),
    ],
)
def test_refusals_are_status_objects(world: World, method: str, path: str, code: int) -> None:
    found = world.client.request(method, path)
    assert (found.status_code, found.json()["kind"], found.json()["code"]) == (code, "Status", code)


def test_programs_may_leave_the_type_of_the_body_out_and_pages_may_not(world: World) -> None:
    text = json.dumps(job_manifest()).encode()
    own = world.client.post(JOBS, content=text, headers={"origin": "http://localhost"})
    assert (own.status_code, len(world.jobs)) == (415, 0)
    assert world.client.post(JOBS, content=text).status_code == 201


def test_pages_of_other_sites_change_nothing(world: World) -> None:
    text = json.dumps(job_manifest())
    simple = world.client.post(JOBS, content=text, headers={"content-type": "text/plain"})
    other = world.client.post(JOBS, json=job_manifest(), headers={"origin": "http://evil.example"})
    assert (simple.status_code, other.status_code) == (415, 403)
    assert not world.jobs


def test_who_calls_is_passed_on_and_refusals_come_back(world: World) -> None:
    world.cluster.answers[QUERY_JOBS] = PermissionDenied("ann may not")
    found = world.client.get(JOBS, auth=("ann", "secret"))
    assert (found.status_code, found.json()["message"]) == (403, "ann may not")


def test_what_the_job_manager_refuses_is_invalid(world: World) -> None:
    answer = job_pb2.CreateResponse()
    answer.error.invalidConfig.message = "no such priority class"
    answer.error.invalidConfig.id.CopyFrom(peloton_pb2.JobID(value="x"))
    world.cluster.answers[CREATE_JOB] = answer
    found = world.create(JOBS, job_manifest())
    assert found.status_code == 422 and "no such priority class" in found.json()["message"]


@pytest.mark.parametrize(
    ("method", "path", "code", "text"),
    [
        ("POST", f"{PODS}/web-abcde-0-1/portforward", 501, "pods/portforward is not built: ports of a pod"),
        ("GET", f"{PODS}/web-abcde-0-1/proxy", 501, "those of its host"),
        ("POST", f"{PODS}/web-abcde-0-1/attach", 501, "use `kubectl logs -f`"),
        ("POST", f"{PODS}/web-abcde-0-1/eviction", 501, "peloton host maintenance start"),
        ("POST", PODS, 405, "make a Job or a Deployment"),
        ("POST", "/api/v1/namespaces", 405, "peloton respool create"),
        ("PATCH", "/api/v1/nodes/host-1", 405, "peloton host maintenance start"),
        ("POST", "/api/v1/namespaces/team/configmaps", 404, "there are no ConfigMaps"),
        ("GET", "/api/v1/namespaces/team/services", 404, "there are no Services"),
        ("GET", "/api/v1/namespaces/team/nothing", 404, "could not find the requested resource"),
    ],
)
def test_what_is_not_there_is_refused_with_advice(
    world: World, method: str, path: str, code: int, text: str
) -> None:
    found = world.client.request(method, path, json={} if method != "GET" else None)
    assert found.status_code == code
    status = found.json()
    assert status["kind"] == "Status" and text in status["message"], status["message"]


def test_a_port_that_is_forwarded_by_a_web_socket_is_refused_likewise(world: World) -> None:
    url = f"{ORIGIN.replace('http:', 'ws:')}{PODS}/web-abcde-0-1/portforward"
    with (
        pytest.raises(WebSocketDenialResponse) as caught,
        world.client.websocket_connect(url, subprotocols=["SPDY/3.1+portforward.k8s.io"]),
    ):
        pass
    answer = caught.value
    assert answer.status_code == 501
    assert "is not built: ports of a pod" in answer.json()["message"]
