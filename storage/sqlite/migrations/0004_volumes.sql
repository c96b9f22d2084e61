-- volume_id begins with the job's id. volume: storage.codec.VOLUME.
CREATE TABLE volumes (
    volume_id TEXT PRIMARY KEY,
    volume TEXT NOT NULL
) WITHOUT ROWID;
