"""All hosts of one term."""
