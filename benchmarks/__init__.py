"""Whole-program benchmarks. Each prints one figure per line.

One that needs a cluster brings it up by `minicluster.temporary.temporary_cluster` and wraps its
main in `run_program`: whatever ends the benchmark takes the cluster down with it.
"""
