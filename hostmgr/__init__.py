"""The host manager: offers, claims, launches and statuses, over one cluster manager."""
