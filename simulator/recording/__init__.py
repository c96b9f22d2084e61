"""Journals of the cores of real daemons, and their replay: the same inputs make the same decisions."""
