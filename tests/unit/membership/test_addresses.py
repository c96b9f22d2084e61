from __future__ import annotations

import ipaddress

import pytest

from peloton.membership.addresses import InterfaceAddress, advertised, best, interfaces, unreachable
from peloton.membership.interface import Address


def up(ip: str) -> InterfaceAddress:
    return InterfaceAddress(ip, True)


def down(ip: str) -> InterfaceAddress:
    return InterfaceAddress(ip, False)


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ([up("::1"), up("2001:db8::1"), up("127.0.0.1"), up("10.0.0.7")], "10.0.0.7"),
        ([down("10.0.0.7"), up("192.168.1.2")], "192.168.1.2"),
        ([up("127.0.0.1"), up("2001:db8::1")], "2001:db8::1"),
        ([up("127.0.0.1"), down("10.0.0.7")], "127.0.0.1"),
        ([up("169.254.3.4"), up("2001:db8::1")], "2001:db8::1"),
        ([up("fe80::1"), up("2001:db8::1")], "2001:db8::1"),
        ([up("::1")], "::1"),
        ([], "127.0.0.1"),
    ],
)
def test_best_address(found: list[InterfaceAddress], chosen: str) -> None:
    assert best(found) == chosen
    assert best(reversed(found)) == chosen


def test_ipv4_listener_advertises_no_ipv6() -> None:
    assert best([up("127.0.0.1"), up("2001:db8::1")], "0.0.0.0") == "127.0.0.1"


def test_advertised_address() -> None:
    assert advertised("127.0.0.1") == "127.0.0.1"
    assert advertised("10.1.2.3") == "10.1.2.3"
    assert advertised("0.0.0.0", "10.9.9.9") == "10.9.9.9"
    assert advertised("myhost") == "myhost"
    assert ipaddress.ip_address(advertised("0.0.0.0")).version == 4


def test_this_host_has_its_loopback() -> None:
    assert up("127.0.0.1") in interfaces()


def test_a_target_of_ipv6_has_brackets() -> None:
    assert Address("h", "2001:db8::1", 1, 2).target == "[2001:db8::1]:2"
    assert Address("h", "10.0.0.7", 1, 2).target == "10.0.0.7:2"


@pytest.mark.parametrize(
    ("ip", "servers", "found"),
    [
        ("127.0.0.1", "zk1:2181,zk2:2181/below", True),
        ("::1", "10.0.0.7:2181", True),
        ("localhost", "127.0.0.1:2181, 10.0.0.7:2181", True),
        ("127.0.0.1", "localhost:2181,[::1]:2181", False),
        ("10.0.0.8", "zk1:2181", False),
        ("node8", "zk1:2181", False),
    ],
)
def test_loopback_is_not_reachable_by_others(ip: str, servers: str, found: bool) -> None:
    assert unreachable(ip, servers) is found
