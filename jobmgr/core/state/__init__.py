"""What the core holds and exchanges: jobs, changes, events, instructions, and the tables of states."""
