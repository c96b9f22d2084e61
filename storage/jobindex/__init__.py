"""The index that job queries are answered from."""
