"""The names of the published Python client of Peloton; `peloton.client` has what they stand for."""
