"""The rules of entitlement (docs/behaviour/pools.md) in small trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise

import pytest

from peloton.errors import InvalidArgument
from peloton.model.ids import ROOT_POOL
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import KINDS, Resources
from resmgr.core.entitlement.fair_share import Load, Snapshot, entitlements
from tests.property.resmgr_fairshare.trees import non_slack

STATIC = ReservationType.STATIC


def kind(
    reservation: float = 0,
    limit: float = 100,
    share: float = 1,
    type: ReservationType = ReservationType.ELASTIC,
) -> KindConfig:
    return KindConfig(round(reservation * 1000), round(limit * 1000), share, type)


def pool(
    name: str,
    config: KindConfig,
    parent: str = ROOT_POOL,
    of: str = "cpu",
    slack_percent: float | None = None,
) -> PoolConfig:
    return PoolConfig(name, name, parent, {of: config}, slack_limit_percent=slack_percent)


def cpu(pools: Sequence[PoolConfig], demands: dict[str, float], capacity: float = 100) -> dict[str, float]:
    """Entitlement to cpu in cores by pool, the root left out."""
    loads = {name: Load(demand=Resources.of(cpu=cores)) for name, cores in demands.items()}
    found = entitlements(Snapshot(pools, Resources.of(cpu=capacity), loads=loads))
    assert found[ROOT_POOL].total.cpu == round(capacity * 1000)
    return {name: each.total.cpu / 1000 for name, each in found.items() if name != ROOT_POOL}


class TestThreePoolsAlike:
    """Capacity 100, reservation 20, limit 100, share 1 each."""

    pools = tuple(pool(name, kind(20)) for name in "abc")

    def test_capacity_that_one_does_not_demand_is_lent_to_the_others(self) -> None:
        assert cpu(self.pools, {"a": 10, "b": 80, "c": 80}) == {"a": 10, "b": 45, "c": 45}

    def test_all_demanding_more_than_a_third_get_a_third(self) -> None:
        got = cpu(self.pools, {"a": 50, "b": 80, "c": 80})
        assert got == {"a": 33.333, "b": 33.333, "c": 33.333}

    def test_capacity_without_demand_is_shared_by_all(self) -> None:
        assert cpu(self.pools, {"a": 10, "b": 40, "c": 20}) == {"a": 20, "b": 50, "c": 30}

    def test_without_demand_all_is_dealt_by_share(self) -> None:
        assert cpu(self.pools, {}, capacity=90) == {"a": 30, "b": 30, "c": 30}

    def test_reservations_above_the_capacity_are_cut_in_proportion(self) -> None:
        got = cpu(self.pools, {"a": 10, "b": 80, "c": 80}, capacity=25)
        assert got == {"a": 5, "b": 10, "c": 10}

    def test_a_capacity_of_zero_entitles_to_nothing(self) -> None:
        assert cpu(self.pools, {"a": 10, "b": 80}, capacity=0) == {"a": 0, "b": 0, "c": 0}


class TestShares:
    def test_unmet_demand_is_served_by_share(self) -> None:
        pools = [pool("a", kind(10, share=1)), pool("b", kind(10, share=3))]
        assert cpu(pools, {"a": 100, "b": 100}) == {"a": 30, "b": 70}

    def test_shares_are_the_decimals_as_which_they_are_written(self) -> None:
        pools = [pool("a", kind(share=0.1)), pool("b", kind(share=0.3))]
        assert cpu(pools, {"a": 100, "b": 100}) == {"a": 25, "b": 75}

    def test_share_0_gets_its_reservation_while_others_claim(self) -> None:
        pools = [pool("a", kind(10, share=0)), pool("b", kind(0, share=0.001))]
        assert cpu(pools, {"a": 100, "b": 100}) == {"a": 10, "b": 90}

    def test_share_0_gets_what_no_claimant_with_a_share_demands(self) -> None:
        pools = [pool("a", kind(10, share=0)), pool("b", kind(0)), pool("c", kind(0))]
        assert cpu(pools, {"a": 100, "b": 30, "c": 0}) == {"a": 70, "b": 30, "c": 0}

    def test_pools_of_share_0_are_treated_alike(self) -> None:
        pools = [pool("a", kind(share=0)), pool("b", kind(share=0))]
        assert cpu(pools, {"a": 100, "b": 100}) == {"a": 50, "b": 50}
        assert cpu(pools, {"a": 20, "b": 0}) == {"a": 60, "b": 40}

    def test_the_rest_is_divided_among_share_0_once_the_others_are_at_their_limits(self) -> None:
        pools = [pool("a", kind(share=0)), pool("b", kind(limit=40))]
        assert cpu(pools, {}) == {"a": 60, "b": 40}


class TestLimits:
    def test_demand_counts_up_to_the_limit(self) -> None:
        pools = [pool("a", kind(limit=30)), pool("b", kind())]
        assert cpu(pools, {"a": 1000, "b": 1000}) == {"a": 30, "b": 70}

    def test_what_one_cannot_take_is_dealt_again(self) -> None:
        pools = [pool("a", kind(limit=20)), pool("b", kind(limit=45)), pool("c", kind())]
        assert cpu(pools, {}) == {"a": 20, "b": 40, "c": 40}

    def test_all_at_their_limits_leave_the_rest(self) -> None:
        pools = [pool("a", kind(limit=20)), pool("b", kind(limit=30))]
        assert cpu(pools, {"a": 50, "b": 50}) == {"a": 20, "b": 30}

    def test_a_kind_left_out_is_nothing(self) -> None:
        found = entitlements(Snapshot([pool("a", kind(10))], Resources.of(1, 1, 1, 1)))
        assert found["a"].total == Resources.of(cpu=1)

    def test_a_reservation_above_the_limit_counts_up_to_the_limit(self) -> None:
        for each in ReservationType:
            pools = [pool("a", kind(50, limit=20, type=each)), pool("b", kind())]
            assert cpu(pools, {"a": 90, "b": 90}) == {"a": 20, "b": 80}

    def test_a_child_with_more_limit_and_reservation_than_its_parent_gets_no_more_than_it(self) -> None:
        pools = [
            pool("p", kind(10, limit=30)),
            pool("a", kind(60), "p"),
            pool("b", kind(30), "p"),
            pool("q", kind()),
        ]
        got = cpu(pools, {"a": 90, "b": 90, "q": 90})
        assert got == {"p": 30, "a": 20, "b": 10, "q": 70}


class TestStatic:
    def test_is_held_without_demand(self) -> None:
        pools = [pool("a", kind(40, type=STATIC)), pool("b", kind(40))]
        assert cpu(pools, {"b": 100}) == {"a": 40, "b": 60}

    def test_borrows_as_others_do(self) -> None:
        pools = [pool("a", kind(40, type=STATIC)), pool("b", kind(40))]
        assert cpu(pools, {"a": 70, "b": 100}) == {"a": 50, "b": 50}

    def test_counts_as_demand_of_its_ancestors(self) -> None:
        pools = [
            pool("p", kind(50)),
            pool("m", kind(45), "p"),
            pool("a", kind(40, type=STATIC), "m"),
            pool("q", kind(50)),
        ]
        assert cpu(pools, {"q": 100}) == {"p": 40, "m": 40, "a": 40, "q": 60}

    def test_parent_holds_it_for_elastic_children(self) -> None:
        pools = [
            pool("p", kind(40, type=STATIC)),
            pool("a", kind(20), "p"),
            pool("b", kind(20), "p"),
            pool("q", kind(40)),
        ]
        got = cpu(pools, {"a": 10, "b": 0, "q": 100})
        assert got == {"p": 40, "a": 25, "b": 15, "q": 60}


class TestTree:
    def test_demand_is_summed_up_and_entitlement_divided_down(self) -> None:
        pools = [
            pool("p", kind(20)),
            pool("a", kind(10), "p"),
            pool("b", kind(10), "p"),
            pool("q", kind(20)),
        ]
        got = cpu(pools, {"a": 5, "b": 60, "q": 80})
        assert got == {"p": 50, "a": 5, "b": 45, "q": 50}

    def test_order_of_the_pools_does_not_matter(self) -> None:
        pools = [pool("a", kind(10), "m"), pool("m", kind(30), "p"), pool("p", kind(40)), pool("q", kind(40))]
        demands = {"a": 80.0, "q": 70.0}
        assert cpu(pools, demands) == cpu(pools[::-1], demands) == {"p": 50, "m": 50, "a": 50, "q": 50}

    def test_the_root_may_be_given_and_has_the_capacity_all_the_same(self) -> None:
        root = PoolConfig(ROOT_POOL, "root", "", {"cpu": kind(1, limit=1)})
        assert cpu([root, pool("a", kind())], {"a": 30}) == {"a": 100}

    def test_no_pools(self) -> None:
        found = entitlements(Snapshot([], Resources.of(4, 3, 2, 1), 500))
        assert found[ROOT_POOL].total == Resources.of(4, 3, 2, 1)
        assert found[ROOT_POOL].slack == Resources.of(cpu=0.5)

    def test_a_tree_of_any_depth(self) -> None:
        names = [ROOT_POOL, *(f"p{i}" for i in range(5000))]
        pools = [pool(name, kind(), above) for above, name in pairwise(names)]
        got = cpu(pools, {names[-1]: 30}, capacity=70)
        assert set(got.values()) == {70}

    def test_kinds_are_apart(self) -> None:
        kinds = dict(zip(KINDS, (kind(1), kind(2), kind(3, share=2), kind(4, share=0)), strict=True))
        pools = [
            PoolConfig("a", "a", ROOT_POOL, kinds),
            PoolConfig("b", "b", ROOT_POOL, dict(kinds, gpu=kind())),
        ]
        loads = {name: Load(Resources.of(10, 10, 10, 10), Resources.of(10, 10, 10, 10)) for name in "ab"}
        found = entitlements(Snapshot(pools, Resources.of(10, 20, 30, 40), loads=loads))
        assert found["a"].total == Resources.of(5, 10, 15, 20)
        assert found["b"].total == Resources.of(5, 10, 15, 20)


class TestSlack:
    @pytest.mark.parametrize(
        ("capacity", "total", "slack"), [(100, 38, 8), (35, 35, 5), (30, 30, 0), (20, 20, 0)]
    )
    def test_of_memory_is_what_non_slack_leaves_up_to_the_need(
        self, capacity: float, total: float, slack: float
    ) -> None:
        load = Load(
            allocation=Resources.of(memory=10),
            demand=Resources.of(memory=20),
            slack_allocation=Resources.of(memory=2),
            slack_demand=Resources.of(memory=50),
        )
        pools = [pool("a", kind(40, limit=60), of="memory"), pool("b", kind(0), of="memory")]
        loads = {"a": load, "b": Load(Resources.of(memory=90))}
        found = entitlements(Snapshot(pools, Resources.of(memory=capacity), loads=loads))["a"]
        assert found.total == Resources.of(memory=total)
        assert found.slack == Resources.of(memory=slack)
        assert non_slack(found) == Resources.of(memory=total - slack)

    @pytest.mark.parametrize(("percent", "slack"), [(None, 8), (0, 0), (50, 20), (33.3, 13.32), (100, 40)])
    def test_limit_is_a_part_of_the_reservation(self, percent: float | None, slack: float) -> None:
        for of in ("memory", "disk", "gpu"):
            wanted = Resources.of(**{of: 70})
            snapshot = Snapshot(
                [pool("a", kind(40), of=of, slack_percent=percent)],
                Resources.of(**{of: 100}),
                loads={"a": Load(slack_demand=wanted)},
            )
            assert entitlements(snapshot)["a"].slack == Resources.of(**{of: slack})

    def test_counts_as_demand_up_to_its_limit_but_not_of_cpu(self) -> None:
        kinds = {"cpu": kind(40), "memory": kind(40)}
        pools = [PoolConfig(name, name, ROOT_POOL, kinds) for name in "ab"]
        loads = {
            "a": Load(slack_demand=Resources.of(cpu=30, memory=30)),
            "b": Load(demand=Resources.of(cpu=100, memory=100)),
        }
        found = entitlements(Snapshot(pools, Resources.of(cpu=100, memory=100), loads=loads))
        assert found["a"].total == Resources.of(cpu=0, memory=8)
        assert found["a"].slack == Resources.of(memory=8)

    def test_of_a_parent_is_the_sum_of_its_childrens(self) -> None:
        pools = [pool("p", kind(10), of="memory")]
        pools += [pool(name, kind(5), "p", of="memory", slack_percent=100) for name in "ab"]
        loads = {"a": Load(demand=Resources.of(memory=10)), "b": Load(slack_demand=Resources.of(memory=5))}
        found = entitlements(Snapshot(pools, Resources.of(memory=10), loads=loads))
        assert found["a"].slack.memory == 0
        assert found["b"].slack.memory == found["p"].slack.memory == found[ROOT_POOL].slack.memory == 5000

    @staticmethod
    def revocable(cores: float, loads: dict[str, Load], shares: tuple[float, ...] = (1, 1)) -> list[float]:
        pools = [pool(name, kind(share=share)) for name, share in zip("abc", shares, strict=False)]
        found = entitlements(Snapshot(pools, Resources.of(cpu=1), round(cores * 1000), loads))
        assert found[ROOT_POOL].slack.cpu == cores * 1000
        assert all(non_slack(each).cpu == each.total.cpu for each in found.values())
        return [found[each.id].slack.cpu / 1000 for each in pools]

    def test_cpu_starts_from_the_allocation_then_demand_by_share_then_the_rest_by_share(self) -> None:
        held, more = Resources.of(cpu=10), Resources.of(cpu=30)
        loads = {"a": Load(slack_allocation=held), "b": Load(slack_demand=more)}
        assert self.revocable(50, loads) == [15, 35]
        assert self.revocable(30, loads) == [10, 20]
        assert self.revocable(40, dict(loads, a=Load(slack_allocation=held, slack_demand=more))) == [25, 15]
        assert self.revocable(40, dict(loads, a=Load(slack_allocation=held, slack_demand=more)), (1, 2)) == [
            20,
            20,
        ]

    def test_pools_of_share_0_get_the_cpu_that_no_other_takes(self) -> None:
        wants = Load(slack_demand=Resources.of(cpu=30))
        assert self.revocable(20, {"a": wants, "b": wants}, (0, 1)) == [0, 20]
        assert self.revocable(40, {"a": wants, "b": wants}, (0, 1)) == [10, 30]
        assert self.revocable(40, {}, (0, 1)) == [0, 40]
        assert self.revocable(40, {}, (0, 0)) == [20, 20]

    def test_cpu_allocated_above_what_there_is_is_cut_in_proportion(self) -> None:
        loads = {
            "a": Load(slack_allocation=Resources.of(cpu=10)),
            "b": Load(slack_allocation=Resources.of(cpu=30), slack_demand=Resources.of(cpu=5)),
        }
        assert self.revocable(20, loads) == [5, 15]

    def test_cpu_in_a_tree(self) -> None:
        pools = [pool("p", kind()), pool("a", kind(), "p"), pool("b", kind(), "p"), pool("q", kind())]
        loads = {
            "a": Load(slack_allocation=Resources.of(cpu=6)),
            "b": Load(slack_demand=Resources.of(cpu=6)),
            "q": Load(slack_demand=Resources.of(cpu=60)),
        }
        found = entitlements(Snapshot(pools, Resources.of(cpu=1), 16_000, loads))
        assert {name: each.slack.cpu for name, each in found.items()} == {
            ROOT_POOL: 16_000,
            "p": 11_000,
            "q": 5_000,
            "a": 6_000,
            "b": 5_000,
        }


class TestRefusals:
    @pytest.mark.parametrize(
        ("pools", "field"),
        [
            ([pool("a", kind(), "nowhere")], "pools[a].parent"),
            ([pool("a", kind(), "b"), pool("b", kind(), "a")], "pools[a].parent"),
            ([pool("a", kind(), "a")], "pools[a].parent"),
            ([pool("a", kind()), pool("a", kind())], "pools"),
            ([pool("a", kind(-1))], "pools[a].cpu"),
            ([pool("a", kind(limit=-1))], "pools[a].cpu"),
            ([pool("a", kind(share=-1))], "pools[a].cpu"),
            ([pool("a", kind(share=math.nan))], "pools[a].cpu"),
            ([pool("a", kind(share=math.inf))], "pools[a].cpu"),
            ([pool("a", kind(), slack_percent=-1)], "pools[a].slack_limit_percent"),
            ([pool("a", kind(), slack_percent=math.nan)], "pools[a].slack_limit_percent"),
        ],
    )
    def test_pools_that_are_no_tree_or_have_no_amounts(self, pools: list[PoolConfig], field: str) -> None:
        with pytest.raises(InvalidArgument) as refused:
            entitlements(Snapshot(pools, Resources.of(1)))
        assert refused.value.field == field

    @pytest.mark.parametrize("where", [ROOT_POOL, "p", "unknown"])
    def test_a_load_of_what_is_no_leaf(self, where: str) -> None:
        pools = [pool("p", kind()), pool("a", kind(), "p")]
        with pytest.raises(InvalidArgument, match="leaf"):
            entitlements(Snapshot(pools, Resources.of(1), loads={where: Load()}))

    def test_amounts_below_0(self) -> None:
        less = Resources(gpu=-1)
        snapshots = [
            Snapshot([pool("a", kind())], less),
            Snapshot([pool("a", kind())], Resources(), -1),
            *(
                Snapshot([pool("a", kind())], Resources(), loads={"a": Load(**{name: less})})
                for name in (each.name for each in fields(Load))
            ),
        ]
        for snapshot in snapshots:
            with pytest.raises(InvalidArgument):
                entitlements(snapshot)
