"""Settings: classes, errors, reference."""
