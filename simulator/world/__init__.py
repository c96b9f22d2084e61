"""What the daemons live in: a clock, a network, a store, a cluster of hosts, and a membership."""
