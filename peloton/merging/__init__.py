"""Answers of the host managers of several Mesos clusters as one answer, without calls and effects."""
