"""Who is there, who leads, and how to become leader: the port in `interface`, its adapters beside it."""
