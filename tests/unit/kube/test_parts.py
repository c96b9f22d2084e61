"""Names, quantities, selectors, patches, versions and tables."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.web.kube.core import discovery, openapi
from peloton.web.kube.core.kinds import KINDS
from peloton.web.kube.core.names import namespace_of, parse_pod_name, pod_name
from peloton.web.kube.core.patches import JSON, MERGE, STRATEGIC, patched
from peloton.web.kube.core.quantities import cores_text, megabytes, megabytes_text, quantity
from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.selectors import fields_match, labels_match
from peloton.web.kube.core.tables import COLUMNS, span
from peloton.web.kube.core.versions import Counter, Seen, events
from peloton.web.kube.watching import pause


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("/team", "team"),
        ("/ml/vision", "ml--vision"),
        ("/a-b", "a-b"),
        ("/a--b", "pool-id"),
        ("/Team", "pool-id"),
        ("/a/b_c", "pool-id"),
        ("/" + "a" * 64, "pool-id"),
        ("/pool-1", "pool-id"),
    ],
)
def test_namespaces_of_pools(path: str, namespace: str) -> None:
    assert namespace_of("id", path) == namespace


def test_names_of_pods() -> None:
    assert parse_pod_name(pod_name("web-2", "0123456789", 14, 3)) == ("web-2", "01234", 14, 3)
    assert parse_pod_name("web-2") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), (2, 2), ("500m", 0.5), ("1k", 1000), ("1Ki", 1024), ("1e3", 1000), ("1.5Gi", 1.5 * 2**30)],
)
def test_quantities(text: Any, value: float) -> None:
    assert quantity(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "1Z", "-1", "one", None, True, "1 Gi"])
def test_what_is_no_quantity(text: Any) -> None:
    with pytest.raises(ValueError, match=r"quantity|negative"):
        quantity(text)


def test_quantities_are_written_as_they_are_read() -> None:
    assert (cores_text(0.5), cores_text(2), megabytes_text(64), megabytes_text(2048)) == (
        "500m",
        "2",
        "64Mi",
        "2Gi",
    )
    assert megabytes("64Mi") == 64


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b!=3", True),
        ("a!=1", False),
        ("a in (1, 2)", True),
        ("a notin (1,2)", False),
        ("c notin (1)", True),
        ("a", True),
        ("!a", False),
        ("!c,b", True),
    ],
)
def test_label_selectors(selector: str, matches: bool) -> None:
    assert labels_match(selector)({"metadata": {"labels": {"a": "1", "b": "2"}}}) is matches


def test_field_selectors() -> None:
    pod = {"metadata": {"name": "x"}, "spec": {"nodeName": "h1"}, "status": {"phase": "Running"}}
    assert fields_match("metadata.name=x,spec.nodeName=h1,status.phase!=Failed", "pods")(pod)
    assert not fields_match("spec.nodeName=h2", "pods")(pod)
    with pytest.raises(Refusal, match="field label not supported"):
        fields_match("spec.other=1", "pods")
    with pytest.raises(Refusal, match="no selector of labels"):
        labels_match("a in 1")


TARGET: dict[str, Any] = {"a": {"b": 1, "c": 2}, "containers": [{"name": "x", "image": "1"}, {"name": "y"}]}


def test_a_merge_patch() -> None:
    found = patched(TARGET, {"a": {"b": None, "d": 3}, "containers": []}, MERGE)
    assert found == {"a": {"c": 2, "d": 3}, "containers": []}


def test_a_strategic_patch_merges_lists_by_their_keys() -> None:
    patch = {"containers": [{"name": "x", "image": "2"}, {"name": "y", "$patch": "delete"}, {"name": "z"}]}
    assert patched(TARGET, patch, STRATEGIC)["containers"] == [{"name": "x", "image": "2"}, {"name": "z"}]
    ordered = {"$setElementOrder/containers": [{"name": "y"}, {"name": "x"}], "containers": [{"name": "x"}]}
    assert [one["name"] for one in patched(TARGET, ordered, STRATEGIC)["containers"]] == ["y", "x"]
    assert patched(TARGET, {"a": {"$retainKeys": ["b"]}}, STRATEGIC)["a"] == {"b": 1}
    assert patched(TARGET, {"a": {"$patch": "replace", "z": 1}}, STRATEGIC)["a"] == {"z": 1}
    assert TARGET["containers"][0]["image"] == "1"


def test_a_json_patch() -> None:
    operations = [
        {"op": "test", "path": "/a/b", "value": 1},
        {"op": "replace", "path": "/a/b", "value": 5},
        {"op": "add", "path": "/containers/-", "value": {"name": "z"}},
        {"op": "remove", "path": "/containers/0"},
        {"op": "copy", "from": "/a/b", "path": "/x~1y"},
        {"op": "move", "from": "/a/c", "path": "/c"},
    ]
    found = patched(TARGET, operations, JSON)
    assert found == {"a": {"b": 5}, "containers": [{"name": "y"}, {"name": "z"}], "x/y": 5, "c": 2}
    with pytest.raises(Refusal, match="operation 0 of the patch does not fit"):
        patched(TARGET, [{"op": "test", "path": "/a/b", "value": 2}], JSON)


def test_server_side_apply_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        patched(TARGET, {}, "application/apply-patch+yaml")
    assert caught.value.code == 415


def thing(uid: str, label: str = "") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "labels": {"l": label}}}


def test_changes_follow_from_what_is_seen() -> None:
    seen = Seen(Counter(100))
    begin = seen.version
    seen.observe([thing("a"), thing("b")], lambda each: True)
    middle = seen.version
    seen.observe([thing("a"), thing("b")], lambda each: True)
    assert seen.version == middle
    seen.observe([thing("a", "x")], lambda each: True)
    told = [(kind, each["metadata"]["uid"]) for kind, each in events(seen.since(middle), lambda each: True)]
    assert sorted(told) == [("DELETED", "b"), ("MODIFIED", "a")]
    assert len(seen.since(begin)) == 4
    versions = [int(change.found["metadata"]["resourceVersion"]) for change in seen.since(begin)]
    assert versions == sorted(set(versions))


def test_a_selection_sees_objects_come_and_go() -> None:
    seen, selected = Seen(Counter(1)), labels_match("l=x")
    told = []
    for label in ("", "x", "x", "y"):
        since = seen.version
        seen.observe([thing("a", label)])
        told += [kind for kind, _ in events(seen.since(since), selected)]
    assert told == ["ADDED", "DELETED"]


def test_old_versions_expire() -> None:
    seen = Seen(Counter(100), most_changes=2)
    for label in ("1", "2", "3"):
        seen.observe([thing("a", label)])
    for version in (50, 100, 10_000):
        with pytest.raises(Refusal) as caught:
            seen.since(version)
        assert caught.value.code == 410
    assert len(seen.since(101)) == 2


def test_parts_that_are_not_observed_are_not_missed() -> None:
    seen = Seen(Counter(1))
    seen.observe([thing("a"), thing("b")])
    seen.observe([], lambda each: each["metadata"]["uid"] == "a")
    assert [change.kind for change in seen.since(1)] == ["ADDED", "ADDED", "DELETED"]


def test_spans_are_written_as_kubectl_does() -> None:
    assert [span(each) for each in (5, 119, 150, 900, 4 * 3600, 90 * 3600)] == [
        "5s",
        "119s",
        "2m30s",
        "15m",
        "4h",
        "3d",
    ]


def test_each_kind_has_columns_a_schema_and_is_discovered() -> None:
    for kind in KINDS:
        path = f"{'apis' if kind.group else 'api'}/{kind.api_version}"
        document = openapi.document(path)
        assert document is not None and f"peloton.{kind.kind}" in document["components"]["schemas"]
        assert COLUMNS[kind.plural]
        found = discovery.resources(kind.group, kind.version)
        assert found is not None and kind.plural in [each["name"] for each in found["resources"]]
        items = discovery.aggregated(not kind.group, "v2")["items"]
        assert kind.plural in [
            each["resource"] for item in items for each in item["versions"][0]["resources"]
        ]


def test_a_watch_of_much_looks_less_often() -> None:
    assert pause(1.0, 0.0) == pause(1.0, 0.25) == 1.0
    assert pause(1.0, 2.0) == 8.0
