"""Members, leaders and elections: the port in `interface`, its adapters beside it."""
