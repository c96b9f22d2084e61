"""The protobuf form of the core's objects."""
