"""The pages of host pools."""
