"""Numbered scripts, each applied once. Every statement in them may be run twice: IF NOT EXISTS, IF EXISTS."""
