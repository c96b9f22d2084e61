"""The adapter that the settings ask for."""

from __future__ import annotations

from peloton.config import MembershipSettings
from peloton.membership.interface import Membership
from peloton.membership.local import LocalMembership


def membership(settings: MembershipSettings) -> Membership:
    return LocalMembership(settings.directory)
