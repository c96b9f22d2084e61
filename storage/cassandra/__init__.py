"""The store in a Cassandra cluster, shared by all machines.

What a write promises, for no transaction reaches over partitions here:

- **A job's fate** (that it is there, its runtime, its active flag, its configs) lies in one partition that is
  changed by conditional writes only, each bound to the state it was decided on. All or none, and of writers
  at once one wins. Where an answer is lost, a serial read tells whether the change was made; only where that
  fails too does the caller get Unavailable.
- **Tasks, events, pools, hosts** are plain writes with a timestamp of the moment in which the store took them
  up, so they may be repeated, and the later one wins. Of one job, the rows of each bucket of 1,000 instances,
  tasks and events together, go in or not as one. A write over several buckets that ends with Unavailable may
  be there in part; repeating it makes it whole. `write_all` writes the job's runtime last.
- **Creation**: what the job's row will name is written before it. A creation cut off half-way is invisible,
  and may be repeated; what it has left of a large config is dropped by a leader that finds it two weeks
  later.
- **Deletion** notes first that it has begun, removes the job's row, then what hung on it, then the note. One
  that was cut off is finished by the next leader, or where a job of the same id is created, but for a large
  config's text: that goes as a creation's does.
- **One job's writes** through one handle are carried out one after the other, in the order of the calls.

**Terms.** Every write of a handle with a term reads the newest term first (one read for all that wait), at
the quorum which acknowledged it: a write called after a newer term began loses. A process that stands still
between that read and its write may still send it: on a job's fate it then loses if the newer leader has
touched the job (the condition fails and the row's term tells why); a plain write loses against all that the
newer leader has written since: each term reserves its timestamps, and begins above those of the one before
(`storage.cassandra.terms`), so that clocks need not agree. What the newer leader has not written since may
still be overwritten by a value of before its term, as if it had come in just before it. The leader's lease
with its margin keeps writers out of that state.
"""
