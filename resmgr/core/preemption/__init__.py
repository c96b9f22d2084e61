"""Preemption: which tasks must end for others, and why. See docs/behaviour/pools.md, Preemption."""
