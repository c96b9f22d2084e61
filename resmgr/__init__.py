"""The resource manager: pools, admission, placements and preemption."""
