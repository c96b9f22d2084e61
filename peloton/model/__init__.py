"""The values that daemons decide about, frozen. No I/O, no protobuf, no clock."""
