-- The components of jobmgr that are locked down: peloton.model.lockdown.Component.
CREATE TABLE lockdown (
    component TEXT PRIMARY KEY
) WITHOUT ROWID;
