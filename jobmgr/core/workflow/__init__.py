"""Workflows of services: what each round does is planned by pure functions of the instances as they are."""
