-- The version of Peloton that began the newest term of a role; empty where that was one of 0.1.
ALTER TABLE terms ADD COLUMN version TEXT NOT NULL DEFAULT '';
