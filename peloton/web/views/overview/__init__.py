"""The page of the whole cluster."""
