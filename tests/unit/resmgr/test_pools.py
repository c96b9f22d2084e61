from __future__ import annotations

import pytest

from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.host_class import HostClass
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import Resources
from resmgr.core.state.classes import ClassCapacity
from resmgr.core.state.needs import Needs
from resmgr.core.state.pool import Pool
from resmgr.core.state.pools import PoolBusy, PoolExists, PoolNotLeaf, PoolTree
from tests.unit.resmgr.world import World, kinds


def tree(*configs: PoolConfig, capacity: Resources | None = None) -> PoolTree:
    made = PoolTree()
    if capacity is not None:
        made.set_capacity(capacity, Resources())
    for config in configs:
        add(made, config)
    return made


def update(tree: PoolTree, config: PoolConfig, force: bool = False) -> Pool:
    tree.check_update(config, force)
    return tree.replace(config)


def add(tree: PoolTree, config: PoolConfig) -> Pool:
    tree.check_new(config)
    return tree.insert(config)


def cpu(reservation: float, limit: float, share: float = 1.0) -> dict[str, KindConfig]:
    return {"cpu": KindConfig(round(reservation * 1000), round(limit * 1000), share)}


PARENT = PoolConfig("p", "p", "root", cpu(50, 100))

WRONG = [
    (PoolConfig("x", "", "p"), "name: '' is not a name"),
    (PoolConfig("x", "  ", "p"), "name: '  ' is not a name"),
    (PoolConfig("x", "a/b", "p"), "name: 'a/b' is not a name without /"),
    (PoolConfig("x", "x", "nowhere"), "parent: 'nowhere' is not the id of a resource pool"),
    (PoolConfig("x", "x", ""), "parent: '' is not the id of a resource pool"),
    (PoolConfig("x", "x", "p", cpu(-1, 1)), "resources[0].reservation: -1.0 is not 0 or more"),
    (
        PoolConfig("x", "x", "p", cpu(5, 4)),
        "resources[0].limit: 4.0 is not at least the reservation of cpu, 5",
    ),
    (PoolConfig("x", "x", "p", cpu(0, 101)), "resources[0].limit: 101.0 is not at most the limit of /p, 100"),
    (
        PoolConfig("x", "x", "p", cpu(51, 60)),
        "resources[0].reservation: 51.0 is not at most 50:"
        " /p reserves 50 of cpu, and its other children take 0",
    ),
    (PoolConfig("x", "x", "p", cpu(0, 1, -1.0)), "resources[0].share: -1.0 is not a number, 0 or more"),
    (
        PoolConfig("x", "x", "p", cpu(0, 1, float("nan"))),
        "resources[0].share: nan is not a number, 0 or more",
    ),
    (
        PoolConfig("x", "x", "p", cpu(0, 1, float("inf"))),
        "resources[0].share: inf is not a number, 0 or more",
    ),
    (
        PoolConfig("x", "x", "p", {"memory": KindConfig(0, 1)}),
        "resources[0].limit: 0.001 is not at most the limit of /p, 0",
    ),
    (
        PoolConfig("x", "x", "p", {"wood": KindConfig(0, 0)}),
        "resources[0].kind: 'wood' is not one of cpu, memory, disk, gpu",
    ),
    (
        PoolConfig("x", "x", "p", controller_limit_percent=101.0),
        "controllerLimit.maxPercent: 101.0 is not a percentage from 0 to 100",
    ),
    (
        PoolConfig("x", "x", "p", controller_limit_percent=float("nan")),
        "controllerLimit.maxPercent: nan is not a percentage from 0 to 100",
    ),
    (
        PoolConfig("x", "x", "p", slack_limit_percent=-1.0),
        "slackLimit.maxPercent: -1.0 is not a percentage from 0 to 100",
    ),
]


@pytest.mark.parametrize(("config", "message"), WRONG, ids=[message[:40] for _, message in WRONG])
def test_a_wrong_config_is_refused_with_field_value_and_what_would_be_right(
    config: PoolConfig, message: str
) -> None:
    pools = tree(PARENT)
    with pytest.raises(InvalidArgument) as refused:
        add(pools, config)
    assert str(refused.value) == message
    assert len(pools) == 2


def test_children_reserve_together_no_more_than_the_parent() -> None:
    pools = tree(PARENT, PoolConfig("x", "x", "p", cpu(30, 60)), PoolConfig("y", "y", "p", cpu(20, 60)))
    with pytest.raises(InvalidArgument, match=r"resources\[0\].reservation: 1.0 is not at most 0"):
        pools.check_new(PoolConfig("z", "z", "p", cpu(1, 60)))
    pools.check_new(PoolConfig("z", "z", "p", cpu(0, 60)))


def test_siblings_names_differ_and_cousins_may_be_alike() -> None:
    pools = tree(PARENT, PoolConfig("q", "q", "root"), PoolConfig("x", "x", "p"))
    with pytest.raises(PoolExists, match="a pool /p/x already, with id x") as refused:
        pools.check_new(PoolConfig("x2", "x", "p"))
    assert refused.value.pool_id == "x"
    assert add(pools, PoolConfig("x2", "x", "q")).path == "/q/x"


def test_reservations_of_the_first_level_are_held_to_the_capacity_once_it_is_known() -> None:
    big = PoolConfig("x", "x", "root", cpu(50, 500))
    tree(big)
    with pytest.raises(InvalidArgument, match="at most 40: / reserves 40 of cpu"):
        tree(big, capacity=Resources.of(40))
    tree(big, capacity=Resources.of(60))


def test_a_pool_is_found_by_its_path() -> None:
    pools = tree(PARENT, PoolConfig("x", "x", "p"))
    assert pools.lookup("/").id == "root"
    assert pools.lookup("/p/x").id == "x"
    with pytest.raises(NotFound, match="/p has no child 'y'"):
        pools.lookup("/p/y")
    for path in ("", "p", "//p", "/p//x"):
        with pytest.raises(InvalidArgument):
            pools.lookup(path)


def test_an_update_keeps_the_parent_and_fits_between_parent_and_children() -> None:
    pools = tree(PARENT, PoolConfig("x", "x", "p", cpu(10, 40)), PoolConfig("y", "y", "x", cpu(5, 30)))
    with pytest.raises(InvalidArgument, match=r"parent: 'root' is not 'p'"):
        update(pools, PoolConfig("x", "x", "root", cpu(10, 40)))
    with pytest.raises(InvalidArgument, match=r"limit: 29.0 is not at least the limit of a child, 30 of cpu"):
        update(pools, PoolConfig("x", "x", "p", cpu(10, 29)))
    with pytest.raises(InvalidArgument, match=r"reservation: 4.0 is not at least what its children reserve"):
        update(pools, PoolConfig("x", "x", "p", cpu(4, 40)))
    with pytest.raises(InvalidArgument, match=r"resources\[cpu\].limit: 0.0 is not at least"):
        update(pools, PoolConfig("x", "x", "p"))
    with pytest.raises(InvalidArgument, match=r"the root is fixed"):
        update(pools, PoolConfig("root", "root", ""))
    with pytest.raises(NotFound):
        update(pools, PoolConfig("z", "z", "p"))
    update(pools, PoolConfig("x", "x", "p", cpu(50, 100)))
    assert pools.get("x").limit[0] == 100_000


def test_force_skips_that_a_limit_is_below_the_reservation() -> None:
    pools = tree(PARENT, PoolConfig("x", "x", "p", cpu(10, 40)))
    with pytest.raises(InvalidArgument, match=r"resources\[0\]\.limit: 5\.0 is not at least"):
        update(pools, PoolConfig("x", "x", "p", cpu(10, 5)))
    update(pools, PoolConfig("x", "x", "p", cpu(10, 5)), force=True)
    assert (pools.get("x").reservation[0], pools.get("x").limit[0]) == (10_000, 5_000)


def test_force_skips_what_relates_a_pool_to_others_only() -> None:
    pools = tree(PARENT, PoolConfig("x", "x", "p", cpu(10, 40)))
    update(pools, PoolConfig("x", "x", "p", cpu(60, 400)), force=True)
    assert pools.get("x").limit[0] == 400_000
    with pytest.raises(InvalidArgument):
        update(pools, PoolConfig("x", "x", "p", cpu(-1, 1)), force=True)


def test_a_new_name_moves_the_paths_below() -> None:
    pools = tree(PARENT, PoolConfig("x", "x", "p"), PoolConfig("y", "y", "x"), PoolConfig("z", "z", "p"))
    with pytest.raises(InvalidArgument, match=r"name: 'z' is not free: /p/z has it already"):
        update(pools, PoolConfig("x", "z", "p"))
    update(pools, PoolConfig("x", "new", "p"))
    assert pools.lookup("/p/new/y").id == "y"
    assert pools.get("y").path == "/p/new/y"
    with pytest.raises(NotFound):
        pools.lookup("/p/x")


def test_only_an_idle_leaf_may_be_deleted() -> None:
    world = World(PoolConfig("p", "p", "root", kinds()), PoolConfig("a", "a", "p", kinds()))
    pools = world.scheduler.tree
    world.enqueue(0)
    with pytest.raises(PoolBusy, match=r"/p/a has 1 task: allocation .* demand cpu:1 memory:1 disk:1 gpu:0"):
        pools.delete("a")
    with pytest.raises(PoolNotLeaf, match="/p has pools below it: a"):
        pools.delete("p")
    with pytest.raises(Refused, match="root"):
        pools.delete("root")
    world.scheduler.kill(world.task(0).job.id, 0)
    pools.delete("a")
    pools.delete("p")
    assert len(pools) == 1


def test_a_pool_with_tasks_gets_no_children() -> None:
    world = World()
    world.enqueue(0)
    with pytest.raises(InvalidArgument, match=r"parent: 'a' is not a pool without tasks"):
        world.scheduler.tree.check_new(PoolConfig("b", "b", "a"))


def test_the_store_may_hold_pools_in_any_order() -> None:
    pools = PoolTree()
    pools.load([PoolConfig("y", "y", "x"), PoolConfig("x", "x", "p"), PARENT])
    assert pools.get("y").path == "/p/x/y"
    with pytest.raises(NotFound, match=r"its parent 'gone' is not"):
        pools.load([PoolConfig("z", "z", "gone")])


def test_capacity_without_demand_is_shared_up_to_the_limits() -> None:
    world = World(
        PoolConfig("p", "p", "root", cpu(0, 500)),
        PoolConfig("x", "x", "p", cpu(0, 500)),
        PoolConfig("y", "y", "p", cpu(0, 20)),
    )
    entitled = {pool.path: pool.entitlement[0] for pool in world.scheduler.tree}
    assert entitled == {"/": 100_000, "/p": 100_000, "/p/x": 80_000, "/p/y": 20_000}


def test_a_copy_is_the_same_and_goes_its_own_way() -> None:
    pools = tree(PARENT, PoolConfig("x", "x", "p", cpu(3, 60)), capacity=Resources.of(100))
    pools.set_classes({HostClass(): ClassCapacity(Resources.of(60)), HostClass(gpu=True): ClassCapacity()})
    leaf = pools.get("x")
    charge = Needs(Resources.of(1), controller=True).charge
    leaf.charge(charge)
    leaf.add_demand(charge)
    leaf.entitle((4000, 0, 0, 0), (1000, 0, 0, 0))
    before = [figures(pool) for pool in pools]
    copy = pools.copy()
    assert [figures(pool) for pool in copy] == before
    assert (copy.capacity, copy.get("x").ancestors[-1]) == (pools.capacity, copy.root)
    copy.get("x").charge(charge)
    copy.get("x").remove_demand(charge)
    assert [figures(pool) for pool in pools] == before


def figures(pool: Pool) -> tuple[object, ...]:
    sums = pool.used, pool.slack, pool.non_preemptible, pool.controller, pool.demand, pool.slack_demand
    entitled = pool.entitlement, pool.slack_entitlement, pool.firm_entitlement
    limits = pool.reservation, pool.limit, pool.controller_limit, pool.slack_limit
    parts = [(of, figures(part)) for of, part in pool.parts.items()]
    return pool.id, pool.path, [list(each) for each in sums], entitled, limits, pool.class_order, parts
