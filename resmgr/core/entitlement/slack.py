"""Slack: what revocable tasks of each pool are entitled to (docs/behaviour/pools.md, Entitlement).

Amounts are integers in thousandths, by pool.

- The slack entitlement to memory, disk and gpu is a part of the entitlement. Slack cpu, which Mesos calls
  revocable, is on top of the cpu entitlement and not bounded by the cpu limit; so the non-slack entitlement
  to cpu is all of the cpu entitlement. Where a pool has less slack cpu than its children have allocated,
  their parts are reduced in proportion, as first assignments are.
- The slack of a leaf is min(entitlement - non-slack need, slack need); that of another pool is the sum of its
  leaves'. (By the leaf's rule, the missing non-slack of one leaf would reduce the slack of another one.)
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from peloton.model.pool import KindConfig, PoolConfig
from resmgr.core.entitlement.water_fill import cut, deal, decimal_ratio, even
from resmgr.core.state.pool import DEFAULT_SLACK_PERCENT

Ratio = tuple[int, int]
"""A fraction."""


def slack_ratio(config: PoolConfig) -> Ratio:
    """Return the slack limit's part of a reservation."""
    percent = config.slack_limit_percent
    part, whole = decimal_ratio(DEFAULT_SLACK_PERCENT if percent is None else percent)
    return part, 100 * whole


def slack_needs(
    held: Sequence[int], requested: Sequence[int], configs: Sequence[KindConfig], ratios: Sequence[Ratio]
) -> list[int]:
    """Return what revocable tasks have and request of a kind other than cpu, up to the slack limit."""
    if not (any(held) or any(requested)):
        return [0] * len(held)
    needs = [0] * len(held)
    for at, wanted in enumerate(map(add, held, requested)):
        if wanted:
            part, whole = ratios[at]
            bound = configs[at].reservation * part // whole
            needs[at] = wanted if wanted < bound else bound
    return needs


def slack_of(entitlement: Sequence[int], need: Sequence[int], slack_need: Sequence[int]) -> list[int]:
    """Return the part of each leaf's entitlement for revocable tasks."""
    found = [0] * len(need)
    for at, slack in enumerate(slack_need):
        if slack:
            left = entitlement[at] - need[at]
            found[at] = 0 if left < 0 else left if left < slack else slack
    return found


def divide_slack_cpu(amount: int, held: list[int], requested: list[int], weights: Sequence[int]) -> list[int]:
    """Divide slack cpu among siblings: what they have allocated, then their demand and the rest by share."""
    rest = amount - sum(held)
    if rest < 0:
        return cut(amount, held)
    spare = rest - sum(requested)
    if spare <= 0:
        return list(map(add, held, deal(rest, requested, weights)))
    return list(map(add, map(add, held, requested), even(spare, weights)))
