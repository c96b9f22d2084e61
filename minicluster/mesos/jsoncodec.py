"""Mesos' JSON, which the master and hostmgr share."""

from peloton.mesos.json import Json, JsonError, M, decode, dumps, encode, loads, to_dict

__all__ = ["Json", "JsonError", "M", "decode", "dumps", "encode", "loads", "to_dict"]
