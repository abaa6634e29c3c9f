-- What the file mirror wrote (only a recorded file can count as removed), and the files that cannot be read.

CREATE TABLE file_entries (
  path     TEXT PRIMARY KEY,
  folder   TEXT NOT NULL,
  kind     TEXT NOT NULL,
  target   TEXT NOT NULL,
  revision INTEGER NOT NULL,
  digest   BLOB NOT NULL,
  held     TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX file_entries_target ON file_entries (target, folder, kind);
CREATE INDEX file_entries_folder ON file_entries (folder, path);
CREATE INDEX file_entries_held ON file_entries (held) WHERE held IS NOT NULL;

CREATE TABLE file_problems (
  path   TEXT PRIMARY KEY,
  folder TEXT NOT NULL,
  digest BLOB NOT NULL,
  reason TEXT NOT NULL,
  at     REAL NOT NULL,
  notice TEXT
) STRICT, WITHOUT ROWID;
