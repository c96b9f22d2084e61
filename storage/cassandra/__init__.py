"""The store in a Cassandra cluster, shared by all machines.

Guarantees of writes, as no transaction spans partitions:

  - **The job itself** (its existence, runtime, active flag and configs) is one partition that is changed only
  by conditional writes, each bound to the state that it was decided on. A change is made completely or not at
  all, and of concurrent changes one succeeds. Where an answer is lost, a serial read finds whether the change
  was made; only where that fails too does the caller get Unavailable. - **Tasks, events, pools, hosts** are
  plain writes with the timestamp of their acceptance. They may be repeated, and the latest one wins. The rows
  of one job in a bucket of 1,000 instances, tasks and events together, are written completely or not at all.
  A part of a write over several buckets that ended with Unavailable may be stored; a repetition completes it.
  `write_all` writes the job's runtime last. - **Creation** writes what the job's row refers to before the
  row. An interrupted creation is invisible and may be repeated; its chunks of a large config are dropped by a
  leader that finds them after two weeks. - **Deletion** records first that it has begun, then removes the
  job's row, then all that belongs to it, then the record. An interrupted deletion is finished by the next
  leader, or when a job with the same id is created, except for the chunks of a large config, which are
  dropped as after a creation. - **Writes of one job** through one handle are made one after the other, in the
  order of the calls.

**Terms.** Every write of a handle with a term first reads the newest term (one read for all waiting writes),
at the quorum that acknowledged it: a write called after a newer term began fails. A process that hangs
between that read and its write may still send the write. On the job itself it then fails if the newer leader
has changed the job: the condition fails, and the row contains the newer term. A plain write loses against all
later writes of the newer leader: each term reserves its timestamps above those of the one before
(`storage.cassandra.terms`), so that clocks need not agree. What the newer leader has not written since may
still be overwritten by a value from before its term, as if it had been written just before. The leader's
lease with its margin keeps writers out of that state.
"""
