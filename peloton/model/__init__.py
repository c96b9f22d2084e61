"""What the daemons decide about, as frozen values. No I/O, no protobuf, no clock."""
