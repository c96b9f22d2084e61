"""The pages of resource pools."""
