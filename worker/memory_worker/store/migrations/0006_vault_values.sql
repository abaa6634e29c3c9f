-- Keyed hashes of the values inside a protected text, so that a person who knows a value finds its memory.
CREATE TABLE vault_values (
  exact BLOB NOT NULL,
  ref   TEXT NOT NULL REFERENCES vault (ref) ON DELETE CASCADE,
  PRIMARY KEY (exact, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX vault_values_ref ON vault_values (ref);
