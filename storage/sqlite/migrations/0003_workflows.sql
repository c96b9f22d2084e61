-- number: order of a job's workflows, its workflow version when each began. workflow: storage.codec.WORKFLOW.
CREATE TABLE workflows (
    workflow_id TEXT PRIMARY KEY,
    job_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    workflow TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX workflows_of_job ON workflows (job_id, number);

-- instance: -1 for the workflow itself.
CREATE TABLE workflow_events (
    workflow_id TEXT NOT NULL,
    instance INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    state INTEGER NOT NULL,
    type INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, instance, timestamp, state)
) WITHOUT ROWID;
