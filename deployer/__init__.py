"""The control plane that deploys Peloton itself: daemons as tasks of a Mesos framework of its own.

It needs none of Peloton's daemons. What it wants and what it has started is in ZooKeeper.
"""
