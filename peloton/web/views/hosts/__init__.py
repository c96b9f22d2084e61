"""The pages of hosts."""
