"""Real servers on this machine, started from their Maven artifacts on loopback ports: no docker, no root."""
