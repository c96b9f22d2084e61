"""How tasks take their resources out of offers."""

from __future__ import annotations

import pytest

from hostmgr.core.state.offers import InsufficientOffers, Taken, free, take
from peloton.model.resources import Resources
from tests.unit.hostmgr.hosts import PORT_TEMPLATE, RESERVED, SLACK, UNRESERVED, need, offer


def test_reserved_goes_first_and_both_may_be_used() -> None:
    (taken,) = take([offer(1, 0, cpu=2, reserved_cpu=1)], [need("a", cpu=2.5, memory=0)])
    assert taken == (Taken(RESERVED, 1000), Taken(UNRESERVED, 1500))


def test_equal_forms_of_several_offers_add_up() -> None:
    (taken,) = take([offer(1, 0, cpu=2), offer(2, 0, cpu=2)], [need("a", cpu=3, memory=0)])
    assert taken == (Taken(UNRESERVED, 3000),)


def test_a_revocable_task_takes_its_cpu_from_slack_alone() -> None:
    host = offer(1, 0, cpu=4, slack_cpu=1)
    (taken,) = take([host], [need("a", cpu=1, memory=0, revocable=True)])
    assert taken == (Taken(SLACK, 1000),)
    with pytest.raises(
        InsufficientOffers, match="needs 2 revocable cores, and the host's offers have 1 revocable core left"
    ):
        take([host], [need("a", cpu=2, revocable=True)])


def test_a_normal_task_takes_no_slack() -> None:
    with pytest.raises(InsufficientOffers):
        take([offer(1, 0, cpu=1, slack_cpu=5)], [need("a", cpu=2)])


def test_ports_are_taken_once() -> None:
    host = offer(1, 0)
    (one, two) = take(
        [host], [need("a", cpu=0, memory=0, ports=(31000, 31005)), need("b", 0, 0, ports=(31001,))]
    )
    assert one == (Taken(PORT_TEMPLATE, ranges=((31000, 31000), (31005, 31005))),)
    assert two == (Taken(PORT_TEMPLATE, ranges=((31001, 31001),)),)
    with pytest.raises(InsufficientOffers, match="port 31000 is not free"):
        take([host], [need("a", ports=(31000,)), need("b", ports=(31000,))])
    with pytest.raises(InsufficientOffers, match="port 80 is not free"):
        take([host], [need("a", ports=(80,))])


def test_free_sums_kinds() -> None:
    found = free([offer(1, 0, cpu=2, reserved_cpu=1, slack_cpu=3), offer(2, 0, cpu=0.5, gpu=1)])
    assert found.normal == Resources.of(3.5, 2048, 2000, 1)
    assert (found.slack_cpu, found.ports) == (3000, 20)
