"""Real servers for tests, started from their Maven artifacts on free loopback ports: no docker, no root."""
