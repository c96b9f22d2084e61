"""The store: repositories as ports, and their adapters for databases."""
