"""Faults at random moments, and the proof that nothing acknowledged was lost and nothing runs twice."""
