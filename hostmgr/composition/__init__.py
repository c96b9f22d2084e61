"""How the parts of the host manager are put together, by idea."""
