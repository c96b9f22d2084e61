"""What services of several APIs share."""
