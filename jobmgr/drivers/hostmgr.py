"""The drivers of one Mesos cluster: what its host manager is called for.

Each cluster has queues and drivers of its own, so that one that does not answer delays no other.
"""

from __future__ import annotations

import asyncio

from jobmgr.drivers.daemon_hosts import HostFollower
from jobmgr.drivers.draining import DrainingHosts
from jobmgr.drivers.foreign_pods import PodFollower
from jobmgr.drivers.holds import HoldKeeper
from jobmgr.drivers.kill import Killer
from jobmgr.drivers.launch import Concerns, Launcher
from jobmgr.drivers.meetings import Meetings
from jobmgr.drivers.options import Called, DriverOptions
from jobmgr.drivers.readings import RunReadings
from jobmgr.drivers.status_stream import StatusStream
from jobmgr.drivers.system_labels import SystemLabels
from jobmgr.drivers.volumes import VolumeDestroyer
from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import Opened
from jobmgr.engine.lockdown import Gate


class HostDrivers:
    """Starts the drivers of each Mesos cluster."""

    def __init__(
        self,
        engine: Engine,
        called: Called,
        options: DriverOptions,
        follower: HostFollower,
        labels: SystemLabels,
        kill_gate: Gate,
    ) -> None:
        """Hosts are drained while `kill_gate` is open."""
        self._engine = engine
        self._called = called
        self._options = options
        self._follower = follower
        self._labels = labels
        self._kill_gate = kill_gate
        self._meetings = Meetings(options.hosts_address)
        self._launchers: dict[str, Launcher] = {}

    async def run(self, cluster: str) -> None:
        """Carry out what is to be done on the hosts of a cluster, and take its statuses; run for ever."""
        engine, hostmgr, options = self._engine, self._called.hostmgrs(cluster), self._options
        lanes, outbox = engine.lanes, engine.outbox.of_cluster(cluster)
        launcher = Launcher(
            hostmgr,
            lanes.job,
            lanes.post,
            outbox.release,
            self._labels,
            engine.store.secrets,
            options.access,
            self._meetings,
            engine.shards.holds,
        )
        self._launchers[cluster] = launcher
        killer = Killer(hostmgr, lanes.job, options.kills, options.shut_downs)
        keeper = HoldKeeper(hostmgr, lanes.job, options.kills, engine.shards.takes)
        draining = DrainingHosts(hostmgr, lanes.post, self._kill_gate, cluster)
        readings = RunReadings(hostmgr, lanes.post, cluster)
        destroyer = VolumeDestroyer(
            hostmgr, engine.store, engine.clock, cluster=cluster, holds=engine.shards.holds
        )
        while_open = engine.shards.while_open

        async def read_statuses(opened: Opened) -> None:
            await StatusStream(self._called.hostmgr_of(cluster, opened), engine, cluster).run()

        drivers = {
            "launch": launcher.launch(outbox.launch),
            "release": launcher.release(),
            "kill": killer.kill(outbox.kill),
            "kill and hold": keeper.kill(outbox.kill_and_hold),
            "release holds": keeper.release(outbox.release_holds),
            "renew holds": keeper.renew(outbox.renew_holds),
            "check holds": while_open(lambda opened: keeper.check()),
            "shut down": killer.shut_down(outbox.shut_down),
            "reconcile": killer.reconcile(outbox.reconcile),
            "event stream": while_open(read_statuses),
            "draining hosts": while_open(lambda opened: draining.run()),
            "usage": while_open(lambda opened: readings.run()),
            "foreign pods": while_open(lambda opened: PodFollower(hostmgr, engine, cluster).run()),
            "daemon hosts": self._follower.follow(cluster, hostmgr),
            "destroy volumes": while_open(lambda opened: destroyer.run(outbox.destroy)),
        }
        async with asyncio.TaskGroup() as group:
            for name, driver in drivers.items():
                group.create_task(driver, name=f"{name} {cluster}".rstrip())

    async def finish_launches(self, concerns: Concerns = lambda launch: True) -> None:
        """Wait until no launches that `concerns` are queued or under way."""
        outbox = self._engine.outbox
        for cluster, launcher in self._launchers.items():
            await launcher.finish(outbox.of_cluster(cluster).launch, concerns)
