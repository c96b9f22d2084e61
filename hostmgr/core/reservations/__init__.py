"""Reservations of hosts for gangs that find no place."""
