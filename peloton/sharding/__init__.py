"""Who owns which shard of the jobs, decided without clock and effects (docs/shards.md)."""
