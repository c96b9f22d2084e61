"""What programs tell people: why a task waits, what would help, times, refusals, messages as text.

Pure: it reads messages and values, and calls nothing.
"""
