"""What a check raises."""


class Violation(AssertionError):
    """An invariant does not hold."""
