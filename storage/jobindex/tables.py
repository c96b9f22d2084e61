"""Tables that job queries run over, and the statements that write them.

SQLite has them in its database; for other backends they are in the index database.
"""

from __future__ import annotations

CREATE = """
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY,
    revision INTEGER NOT NULL,
    active INTEGER NOT NULL,
    runtime TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE job_configs (
    job_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    words TEXT NOT NULL,
    summary BLOB NOT NULL,
    payload BLOB NOT NULL,
    UNIQUE (job_id, version)
);

CREATE TABLE job_index (
    job_id TEXT PRIMARY KEY,
    config_version INTEGER NOT NULL,
    state INTEGER NOT NULL,
    creation_time INTEGER NOT NULL,
    completion_time INTEGER NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    pool_id TEXT NOT NULL,
    labels TEXT NOT NULL,
    owned_by TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

CREATE INDEX job_index_creation_time ON job_index (creation_time, job_id);
"""
"""The tables as the migrations of storage.sqlite create them."""
TABLES = ("jobs", "job_configs", "job_index")

INSERT_CONFIG = (
    "INSERT OR IGNORE INTO job_configs (job_id, version, words, summary, payload) VALUES (?, ?, ?, ?, ?)"
)
REPLACE_INDEX = """
INSERT OR REPLACE INTO job_index (
    job_id, config_version, state, creation_time, completion_time, name, owner, pool_id, labels, owned_by
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Most runtimes differ in their counts only: then no page of the index is touched.
UPDATE_INDEX = """
UPDATE job_index SET state = :state, creation_time = :created, completion_time = :completed
WHERE job_id = :job_id
  AND (state, creation_time, completion_time) IS NOT (:state, :created, :completed)
"""
