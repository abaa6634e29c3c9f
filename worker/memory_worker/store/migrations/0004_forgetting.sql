-- Forgettings under way, and protected values apart from every other table.

-- `plan` names what is to be destroyed; it is emptied before the last step, so that nothing of it stays.
CREATE TABLE forgettings (
  id      TEXT PRIMARY KEY,
  at      REAL NOT NULL,
  state   TEXT NOT NULL,
  steps   TEXT NOT NULL,
  plan    BLOB,
  receipt BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- One key per entity, wrapped under the tenant's key: destroying the key destroys every value under it.
CREATE TABLE vault_keys (
  owner   TEXT PRIMARY KEY,
  wrapped BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE vault (
  ref    TEXT PRIMARY KEY,
  owner  TEXT NOT NULL REFERENCES vault_keys (owner),
  memory TEXT NOT NULL,
  bank   INTEGER NOT NULL,
  exact  BLOB NOT NULL,
  sealed BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX vault_exact ON vault (bank, exact);
CREATE INDEX vault_memory ON vault (memory);
CREATE INDEX vault_owner ON vault (owner);
