-- Host pools without `default`, and the hosts that are in other pools or being moved, by framework.
CREATE TABLE host_pools (
    framework TEXT NOT NULL,
    pool TEXT NOT NULL,
    PRIMARY KEY (framework, pool)
) WITHOUT ROWID;
CREATE TABLE pooled_hosts (
    framework TEXT NOT NULL,
    hostname TEXT NOT NULL,
    pool TEXT NOT NULL,
    desired TEXT NOT NULL,
    PRIMARY KEY (framework, hostname)
) WITHOUT ROWID;
