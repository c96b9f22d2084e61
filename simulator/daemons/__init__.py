"""Interpreters of the cores: each carries out the instructions of one daemon in the simulated world."""
