-- The first schema. `record` columns hold the JSON of the contract's struct and are the truth;
-- the columns beside them are derived from it and exist for filters, order and uniqueness.

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE banks (
  n          INTEGER PRIMARY KEY AUTOINCREMENT,
  name       TEXT NOT NULL,
  owner      TEXT,
  trash_id   TEXT,
  trashed_at REAL,
  record     BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX banks_name ON banks (name) WHERE trash_id IS NULL;

-- Dense numbers of published rows, by name: a bank made again under an old name goes on counting.
CREATE TABLE bank_seqs (
  bank TEXT PRIMARY KEY,
  seq  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE memories (
  n           INTEGER PRIMARY KEY AUTOINCREMENT,
  id          TEXT NOT NULL UNIQUE,
  bank        INTEGER NOT NULL REFERENCES banks (n),
  state       TEXT NOT NULL,
  tier        TEXT NOT NULL,
  kind        TEXT NOT NULL,
  pinned      INTEGER NOT NULL,
  subject     TEXT,
  slot        TEXT,
  session     TEXT,
  fingerprint BLOB NOT NULL,
  created_at  REAL NOT NULL,
  updated_at  REAL NOT NULL,
  expires_at  REAL,
  expires_set INTEGER NOT NULL DEFAULT 0,
  record      BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX memories_live_text ON memories (bank, fingerprint) WHERE state = 'live';
CREATE INDEX memories_page ON memories (bank, state, created_at, id);
CREATE INDEX memories_subject ON memories (bank, subject) WHERE subject IS NOT NULL AND state = 'live';
CREATE UNIQUE INDEX memories_slot ON memories (bank, slot) WHERE slot IS NOT NULL AND state = 'live';
CREATE INDEX memories_session ON memories (session) WHERE session IS NOT NULL;
CREATE INDEX memories_expiry ON memories (expires_at) WHERE expires_at IS NOT NULL AND state = 'live';

-- Every wording a record ever had stays its own.
CREATE TABLE wordings (
  bank        INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  memory      TEXT NOT NULL,
  PRIMARY KEY (bank, fingerprint, memory)
) STRICT, WITHOUT ROWID;
CREATE INDEX wordings_memory ON wordings (memory);

-- Reinforcement is idempotent: one row per distinct cause.
CREATE TABLE reinforcements (
  memory TEXT NOT NULL,
  cause  TEXT NOT NULL,
  PRIMARY KEY (memory, cause)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_tags (
  bank   INTEGER NOT NULL,
  tag    TEXT NOT NULL,
  memory TEXT NOT NULL,
  PRIMARY KEY (bank, tag, memory)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_tags_memory ON memory_tags (memory);

CREATE TABLE entities (
  id     TEXT PRIMARY KEY,
  name   TEXT NOT NULL,
  state  TEXT NOT NULL,
  record BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Names and aliases, normalised, to the entity they mean.
CREATE TABLE entity_names (
  key     TEXT NOT NULL,
  channel TEXT NOT NULL,
  entity  TEXT NOT NULL REFERENCES entities (id),
  PRIMARY KEY (key, channel)
) STRICT, WITHOUT ROWID;
CREATE INDEX entity_names_entity ON entity_names (entity);

CREATE TABLE memory_entities (
  entity TEXT NOT NULL,
  memory TEXT NOT NULL,
  PRIMARY KEY (entity, memory)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_entities_memory ON memory_entities (memory);

CREATE TABLE properties (
  name   TEXT PRIMARY KEY,
  record BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Live claims by entity and property, for contradictions and entity pages.
CREATE TABLE claims (
  entity   TEXT NOT NULL,
  property TEXT NOT NULL,
  memory   TEXT NOT NULL,
  value    TEXT NOT NULL,
  PRIMARY KEY (entity, property, memory)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_memory ON claims (memory);

CREATE TABLE rules (
  bank   INTEGER NOT NULL REFERENCES banks (n),
  name   TEXT NOT NULL,
  record BLOB NOT NULL,
  PRIMARY KEY (bank, name)
) STRICT, WITHOUT ROWID;

-- Lines of `learned`, live and removed: a removed line does not come back.
CREATE TABLE learned_lines (
  bank        INTEGER NOT NULL,
  fingerprint BLOB NOT NULL,
  state       TEXT NOT NULL,
  record      BLOB NOT NULL,
  PRIMARY KEY (bank, fingerprint)
) STRICT, WITHOUT ROWID;

CREATE TABLE suggestions (
  id         TEXT PRIMARY KEY,
  bank       INTEGER NOT NULL REFERENCES banks (n),
  state      TEXT NOT NULL,
  evidence   BLOB NOT NULL,
  created_at REAL NOT NULL,
  expires_at REAL NOT NULL,
  record     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX suggestions_page ON suggestions (bank, state, created_at, id);
CREATE INDEX suggestions_evidence ON suggestions (bank, evidence);

CREATE TABLE suggestion_targets (
  target     TEXT NOT NULL,
  suggestion TEXT NOT NULL REFERENCES suggestions (id),
  PRIMARY KEY (target, suggestion)
) STRICT, WITHOUT ROWID;
CREATE INDEX suggestion_targets_suggestion ON suggestion_targets (suggestion);

CREATE TABLE notices (
  id       TEXT PRIMARY KEY,
  bank     INTEGER NOT NULL REFERENCES banks (n),
  at       REAL NOT NULL,
  acked_at REAL,
  record   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX notices_page ON notices (bank, at, id);

-- Keyed hashes of what was forgotten, so that it is not learned again.
CREATE TABLE forgotten (
  hash BLOB PRIMARY KEY,
  kind TEXT NOT NULL,
  at   REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
  n           INTEGER PRIMARY KEY AUTOINCREMENT,
  turn        TEXT NOT NULL UNIQUE,
  session     TEXT NOT NULL,
  state       TEXT NOT NULL,
  received_at REAL NOT NULL,
  next_at     REAL NOT NULL,
  attempts    INTEGER NOT NULL DEFAULT 0,
  reason      TEXT,
  bytes       INTEGER NOT NULL DEFAULT 0,
  payload     BLOB,
  raw         BLOB
) STRICT;
CREATE INDEX inbox_due ON inbox (next_at, n) WHERE state = 'waiting';
CREATE INDEX inbox_session ON inbox (session, n) WHERE state IN ('waiting', 'working');
CREATE INDEX inbox_parked ON inbox (n) WHERE state = 'parked';
CREATE INDEX inbox_done ON inbox (received_at) WHERE state = 'done';

CREATE TABLE session_cursors (
  session    TEXT PRIMARY KEY,
  message    TEXT NOT NULL,
  updated_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
  principal TEXT NOT NULL,
  key       TEXT NOT NULL,
  at        REAL NOT NULL,
  function  TEXT NOT NULL,
  request   BLOB NOT NULL,
  reply     BLOB NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency (at);

CREATE TABLE journal (
  seq             INTEGER PRIMARY KEY AUTOINCREMENT,
  id              TEXT NOT NULL,
  at              REAL NOT NULL,
  bank            TEXT NOT NULL,
  owner           TEXT,
  bank_seq        INTEGER,
  type            TEXT NOT NULL,
  target          TEXT NOT NULL,
  actor_route     TEXT NOT NULL,
  actor_principal TEXT NOT NULL,
  cause_kind      TEXT NOT NULL,
  cause_id        TEXT NOT NULL,
  session         TEXT,
  before          BLOB,
  after           BLOB
) STRICT;
CREATE UNIQUE INDEX journal_id ON journal (id);
CREATE INDEX journal_target ON journal (target, seq);
CREATE INDEX journal_cause ON journal (cause_id, seq);
CREATE INDEX journal_session ON journal (session, seq) WHERE session IS NOT NULL;

-- How far each reader of the journal has come.
CREATE TABLE cursors (
  reader TEXT PRIMARY KEY,
  seq    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counters that outlive a restart: what extraction kept, refused and ignored.
CREATE TABLE counters (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
