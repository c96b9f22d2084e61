-- The newest term in which each role's leader has begun to write.
CREATE TABLE terms (
    role TEXT PRIMARY KEY,
    term INTEGER NOT NULL
) WITHOUT ROWID;

-- active: needs work (1) or retired (0). runtime: storage.codec.JOB_RUNTIME.
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    active INTEGER NOT NULL,
    runtime TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX jobs_active ON jobs (job_id) WHERE active = 1;

-- words and summary: storage.jobindex.entries. payload: peloton.api.v0.job.JobConfig; last, for it may be large.
CREATE TABLE job_configs (
    job_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    words TEXT NOT NULL,
    summary BLOB NOT NULL,
    payload BLOB NOT NULL,
    UNIQUE (job_id, version)
);

-- What queries filter and sort by; narrow, for it is scanned. labels: storage.jobindex.entries.label_lines.
CREATE TABLE job_index (
    job_id TEXT PRIMARY KEY,
    config_version INTEGER NOT NULL,
    state INTEGER NOT NULL,
    creation_time INTEGER NOT NULL,
    completion_time INTEGER NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    labels TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX job_index_creation_time ON job_index (creation_time, job_id);

-- runtime: storage.codec.TASK_RUNTIME.
CREATE TABLE tasks (
    job_id TEXT NOT NULL,
    instance INTEGER NOT NULL,
    state INTEGER NOT NULL,
    runtime TEXT NOT NULL,
    PRIMARY KEY (job_id, instance)
) WITHOUT ROWID;

-- step: place of the event's state in a run's life, which orders events of one moment.
-- event: storage.codec.POD_EVENT.
CREATE TABLE pod_events (
    job_id TEXT NOT NULL,
    instance INTEGER NOT NULL,
    run INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    step INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (job_id, instance, run, timestamp, step)
) WITHOUT ROWID;

CREATE INDEX pod_events_timestamp ON pod_events (timestamp);

-- config: storage.codec.POOL.
CREATE TABLE pools (
    pool_id TEXT PRIMARY KEY,
    config TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE framework_ids (
    name TEXT PRIMARY KEY,
    framework_id TEXT NOT NULL
) WITHOUT ROWID;

-- info: storage.codec.HOST.
CREATE TABLE hosts (
    hostname TEXT PRIMARY KEY,
    info TEXT NOT NULL
) WITHOUT ROWID;
