"""Hosts as rows, pages and cells of the heat map."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.errors import InvalidArgument
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc.hostmgr_svc_pb2 import GetHostCacheResponse
from peloton.web.views.hosts.heatmap import NO_CAPACITY, OUT_OF_SERVICE, heat_map, level
from peloton.web.views.hosts.rows import (
    HostRow,
    HostsQuery,
    Usage,
    choices,
    host_rows,
    hosts_page,
    ordered,
    selected,
)

UP, DOWN, DRAINING = host_pb2.HOST_STATE_UP, host_pb2.HOST_STATE_DOWN, host_pb2.HOST_STATE_DRAINING


def info(
    name: str, state: host_pb2.HostState.ValueType = UP, pool: str = "", **labels: str
) -> host_pb2.HostInfo:
    wire = [peloton_pb2.Label(key=key, value=value) for key, value in labels.items()]
    return host_pb2.HostInfo(
        hostname=name, state=state, goal_state=state, labels=wire, current_pool=pool, desired_pool=pool
    )


def summary(name: str, cpu: float, of: float) -> GetHostCacheResponse.Summary:
    return GetHostCacheResponse.Summary(
        hostname=name,
        status="ready",
        allocation=[hostmgr_pb2.Resource(kind="cpu", capacity=cpu)],
        capacity=[hostmgr_pb2.Resource(kind="cpu", capacity=of)],
    )


def row(name: str, cpu: float = 0, state: str = "UP", pool: str = "", **labels: str) -> HostRow:
    return HostRow(name, state, state, pool=pool, labels=tuple(labels.items()), usage={"cpu": Usage(cpu, 10)})


def query(parameters: Mapping[str, str] | None = None) -> HostsQuery:
    return HostsQuery.of(parameters or {})


def test_rows_of_hosts_that_are_as_they_were_are_kept() -> None:
    before = host_rows([info("a"), info("b"), info("c")], [summary("a", 1, 4), summary("b", 1, 4)])
    after = host_rows(
        [info("a"), info("b"), info("c", DOWN)], [summary("a", 1, 4), summary("b", 2, 4)], before
    )
    assert after["a"][1] is before["a"][1]
    assert after["b"][1].used("cpu").allocated == 2
    assert after["c"][1].state == "DOWN"
    assert list(host_rows([info("b")], [], after)) == ["b"]


def test_rows_merge_what_hosts_are_with_their_amounts() -> None:
    made = host_rows([info("a", rack="r1"), info("b", DOWN)], [summary("a", 1, 4)])
    one, two = made["a"][1], made["b"][1]
    assert one.used("cpu") == Usage(1, 4)
    assert (one.used("cpu").percent, one.used("gpu").percent) == (25, 0)
    assert one.labels == (("rack", "r1"),)
    assert (two.state, two.connected, two.up) == ("DOWN", False, False)


def test_a_host_of_two_agents_has_the_sums() -> None:
    one = host_rows([info("a")], [summary("a", 1, 4), summary("a", 3, 4)])["a"][1]
    assert one.used("cpu") == Usage(4, 8)


def test_the_address_of_a_host_holds_its_name_escaped() -> None:
    assert row("x y<b>").url == "/hosts/x%20y%3Cb%3E"
    assert row("cluster2/host").url == "/hosts/cluster2/host"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", "AWAY"),
        ("kind", "net"),
        ("group", "row"),
        ("sort", "-size"),
        ("page", "0"),
        ("page", "x"),
        ("page", "²"),
        ("size", "7"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_value(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}: "):
        query({name: value})


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "q": st.text(max_size=5).map(str.strip),
            "state": st.sampled_from(["", "UP", "DOWN"]),
            "pool": st.sampled_from(["", "shared", "a&b=c"]),
            "label": st.sampled_from(["", "rack", "rack=1 2"]),
            "kind": st.sampled_from(["cpu", "gpu"]),
            "group": st.sampled_from(["pool", "label:rack"]),
            "sort": st.sampled_from(["host", "-host", "-cpu", "pool"]),
            "page": st.sampled_from(["1", "7"]),
            "size": st.sampled_from(["50", "500"]),
        },
    )
)
def test_the_address_of_a_query_is_read_as_the_same_query(parameters: dict[str, str]) -> None:
    from urllib.parse import parse_qsl

    asked = query(parameters)
    address = asked.url(page=asked.page)
    assert query(dict(parse_qsl(address.partition("?")[2]))) == asked


def test_filters_by_name_state_pool_and_label() -> None:
    rows = [row("alpha", rack="1"), row("beta", state="DOWN", pool="shared"), row("Alps", rack="2")]

    def names(**parameters: str) -> list[str]:
        return [each.name for each in selected(rows, query(parameters))]

    assert names() == ["alpha", "beta", "Alps"]
    assert names(q="AL") == ["alpha", "Alps"]
    assert names(state="DOWN") == names(pool="shared") == ["beta"]
    assert names(label="rack") == ["alpha", "Alps"]
    assert names(label="rack=2") == ["Alps"]
    assert names(label="rack=") == []


def test_sorts_by_share_and_turns_the_order_round() -> None:
    rows = [row("a", 1), row("b", 9), row("c", 5)]
    down = query({"sort": "-cpu"})
    assert [each.name for each in ordered(rows, down)] == ["b", "c", "a"]
    assert down.sorted_by("cpu") == "/hosts?sort=cpu"
    assert (down.aria_sort("cpu"), down.aria_sort("host")) == ("descending", "none")
    assert query().sorted_by("cpu") == "/hosts?sort=-cpu"
    assert query().sorted_by("host") == "/hosts?sort=-host"


@given(st.integers(0, 180), st.integers(1, 9))
def test_pages_hold_each_host_once(count: int, asked: int) -> None:
    rows = [row(f"h{number:03}") for number in range(count)]
    first = hosts_page(rows, rows, query())
    shown = [
        each
        for number in range(1, first.pages + 1)
        for each in hosts_page(rows, rows, query({"page": str(number)})).rows
    ]
    assert shown == rows
    some = hosts_page(rows, rows, query({"page": str(asked)}))
    assert some.page <= some.pages
    assert some.last - some.first + 1 == len(some.rows) or not some.rows


def test_groups_are_offered_for_labels_that_several_hosts_share() -> None:
    rows = [row(f"h{n}", pool="shared", rack=str(n % 2), serial=str(n), host_pool="shared") for n in range(9)]
    offered = choices(rows)
    assert offered.keys == ("rack",)
    assert offered.pools == ("shared",)


def test_levels_tell_shares_and_what_has_none() -> None:
    assert [level(row("a", cpu), "cpu") for cpu in (0, 0.9, 1, 5, 10)] == ["0", "0", "1", "5", "9"]
    assert level(row("a", 5, "DOWN"), "cpu") == OUT_OF_SERVICE
    assert level(row("a"), "gpu") == NO_CAPACITY


def test_the_map_groups_hosts_and_adds_them_up() -> None:
    rows = [row("a", 1, rack="1"), row("b", 5, "DRAINING", rack="1"), row("c", 10, rack="2"), row("d", 0)]
    found = heat_map(rows, "cpu", "label:rack")
    assert [(group.name, group.up, group.states) for group in found.groups] == [
        ("1", 1, (("DRAINING", 1),)),
        ("2", 1, ()),
        ("without rack", 1, ()),
    ]
    assert (found.hosts, found.usage) == (4, Usage(16, 40))
    texts = [cell.text for cell in found.groups[0].cells]
    assert texts == ["a: 10%, 1 of 10 cores", "b: DRAINING, 50%, 5 of 10 cores"]
    assert [group.name for group in heat_map(rows, "cpu", "pool").groups] == ["all hosts"]


@given(
    st.lists(
        st.tuples(st.integers(0, 10), st.sampled_from(["UP", "DOWN"]), st.sampled_from("xyz")), max_size=30
    )
)
def test_each_host_is_one_cell_and_sums_equal_their_parts(hosts: list[tuple[int, str, str]]) -> None:
    rows = [row(f"h{n}", cpu, state, pool) for n, (cpu, state, pool) in enumerate(hosts)]
    found = heat_map(rows, "cpu", "pool")
    cells = [cell.url for group in found.groups for cell in group.cells]
    assert sorted(cells) == sorted(each.url for each in rows)
    assert found.usage.allocated == sum(cpu for cpu, _, _ in hosts)
