"""The store that settings select: opening it, and migrating its schema."""
