"""What the resource manager decides: pools, queues, admission, task states, leases. `now` is an input."""
