-- Hosts that hostmgr has seen, lost ones too, by framework.
CREATE TABLE known_hosts (
    framework TEXT NOT NULL,
    hostname TEXT NOT NULL,
    host TEXT NOT NULL,
    PRIMARY KEY (framework, hostname)
) WITHOUT ROWID;
