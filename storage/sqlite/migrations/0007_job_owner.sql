-- owned_by: the owner in the spec, by which rights are granted; the column owner has its owning team.
-- spec_owner: storage.sqlite.migrate.
ALTER TABLE job_index ADD COLUMN owned_by TEXT NOT NULL DEFAULT '';

UPDATE job_index SET owned_by = coalesce(
    (
        SELECT spec_owner(c.summary) FROM job_configs AS c
        WHERE c.job_id = job_index.job_id AND c.version = job_index.config_version
    ),
    ''
);
