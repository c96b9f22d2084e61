"""The rules of the Mesos master, without I/O and clocks."""
