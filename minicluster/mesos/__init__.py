"""A Mesos master and agents on one machine, speaking the real v1 API as recorded.

``python -m minicluster.mesos.master`` and ``… .agent`` are the processes; ``--help`` lists the flags.
Each prints one line when it is ready (``master: listening on HOST:PORT``; ``agent: listening on HOST:PORT,
registered as ID``) and writes ``--ready-file``: JSON with pid, host and port, of an agent also agent_id.
A process that cannot run prints one line on standard error; its exit code is 1.

``master.core``
    The rules, without I/O, clock or randomness of its own: calls and agents' messages in, queued events and
    messages out. Simulated agents are part of it and are handled like real ones.
``master``
    HTTP (``calls``: the scheduler API, ``operator``: the rest), the registry, one timer. With ``--zk`` it is
    one of several: ``election`` says which leads, and the others redirect to it.
``agent``
    Runs tasks as processes of their own, each under a supervisor that outlives the agent; supervisors are
    forked from a small process, the fork server, and used again. What is where below its work directory, the
    records of process groups in ``meta/pids`` among it, is in ``agent.layout``.
``agent.cleanup.kill_tasks(work_dir)``
    Ends the tasks that a dead agent left running.

An agent that is killed (SIGKILL) comes back under its id and finds its tasks; one that is stopped (SIGTERM,
SIGINT) unregisters, ends its tasks, and is a new agent when it is started again.

A new master recovers from the registry which agents there are, and learns tasks and frameworks from the
agents as they come back and from the frameworks as they subscribe again. The registry of several masters is
a node in their ZooKeeper, not a replicated log: one master of any number can lead, whether the others live
or not.

Dynamic reservations and persistent volumes are carried out by ``master.core.operations`` and
``agent.volumes``: an agent checkpoints them, so that they outlive the agent's process, its id, and masters.

Not here, and dropped or refused: custom executors, task groups, ACLs, enforcement of quotas. Labels that
steer tasks on simulated agents are in ``master.core.simulated_agents``.
"""
