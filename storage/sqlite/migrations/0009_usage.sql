-- What jobs have held, used and lost to preemption. Hours and starts are in seconds since 1970.
CREATE TABLE usage_of_jobs (
    job_id TEXT NOT NULL,
    hour INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (job_id, hour)
) WITHOUT ROWID;
CREATE INDEX usage_of_hours ON usage_of_jobs (hour, job_id);
-- Of all groups, in hours and days: the number is the order in which a period's rows were written.
CREATE TABLE usage_periods (
    seconds INTEGER NOT NULL,
    start INTEGER NOT NULL,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (seconds, start, number)
) WITHOUT ROWID;
-- The last period of each length that is closed.
CREATE TABLE usage_closed (
    seconds INTEGER PRIMARY KEY,
    start INTEGER NOT NULL
);
