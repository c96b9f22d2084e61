"""Faults at random points, and the proof that nothing acknowledged was lost and nothing runs twice."""
