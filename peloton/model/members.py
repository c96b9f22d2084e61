"""The list of the members of a gang: by which variables and files a member is told of it."""

from __future__ import annotations

from collections.abc import Mapping

MEMBERS = "PELOTON_MEMBERS"
"""The variable with the list: addresses, with commas between them."""
PART = "PELOTON_MEMBERS_PART_"
"""Of a long list, variables with a number behind this have the parts."""
MEMBERS_FILE = "peloton-members"
"""The file of the sandbox with a line for each member: its address."""
HOSTFILE = "peloton-hostfile"
"""The file of the sandbox with a line for each member: its host."""


def members_in(variables: Mapping[str, str]) -> list[str]:
    """Return the addresses that a member's variables have, by rank; none where these have no list."""
    parts = part_names(variables)
    whole = "".join(variables[name] for name in parts) if parts else variables.get(MEMBERS, "")
    return whole.split(",") if whole else []


def part_names(variables: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that have parts of a long list, in the order of the parts."""
    return sorted((name for name in variables if name.startswith(PART)), key=lambda name: (len(name), name))


def host_of(address: str) -> str:
    """Return the host of an address, as it is there: `host:port`, `[host]:port`, or a host alone."""
    host, _, port = address.rpartition(":")
    return host if host and port.isdecimal() else address
