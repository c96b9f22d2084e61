"""Scripts NNNN_name.sql, applied in order by `storage.sqlite.migrate`."""
