-- Samples of pools and of the cluster over time: blocks of many samples. Steps and starts are in seconds.
CREATE TABLE history (
    scope TEXT NOT NULL,
    step INTEGER NOT NULL,
    start INTEGER NOT NULL,
    part INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (scope, step, start, part)
) WITHOUT ROWID;
