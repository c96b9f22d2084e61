"""What the scheduler holds: pools, tasks, gangs, queues, leases, and the steps that keep them consistent."""
