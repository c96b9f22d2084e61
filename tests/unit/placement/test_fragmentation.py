"""GPU tasks go where they leave GPUs that the others can use."""

from __future__ import annotations

from placement.core.plan import plan
from placement.core.policy import Policy
from tests.unit.placement.samples import gang, host, needs


def test_a_gpu_task_does_not_take_the_cpu_that_others_need_beside_their_gpus() -> None:
    """The first task has room on both hosts. On the fuller one it would leave a GPU without CPU."""
    tight, wide = host(0, cpu=4, gpu=2), host(1, cpu=12, gpu=2)
    narrow, large = [gang(needs(cpu=1, gpu=1)) for _ in range(3)], gang(needs(cpu=4, gpu=1))
    planned = plan([large, *narrow], [tight, wide], policy=Policy(largest_first=False))
    assert not planned.unplaced
    assert {placement.host.hostname: len(placement.tasks) for placement in planned.placements} == {
        "host-0": 2,
        "host-1": 2,
    }
    assert large.tasks[0] in next(p.tasks for p in planned.placements if p.host.hostname == "host-1")
