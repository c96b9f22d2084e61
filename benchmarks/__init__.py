"""Whole-program benchmarks. Each prints one figure per line."""
