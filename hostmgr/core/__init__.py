"""What hostmgr decides about hosts, offers, claims and reconciliation. Pure."""
