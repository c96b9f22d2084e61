"""What the master shows of agents, and what follows for hosts in maintenance and lost ones."""
