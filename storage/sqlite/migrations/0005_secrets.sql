-- The contents of secret files. Configs name them by key.
CREATE TABLE secrets (
    job_id TEXT NOT NULL,
    key TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (job_id, key)
) WITHOUT ROWID;
