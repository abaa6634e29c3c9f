-- What each turn was given: ids, revisions and scores, never a text.
CREATE TABLE uses (
  n       INTEGER PRIMARY KEY AUTOINCREMENT,
  turn    TEXT NOT NULL,
  session TEXT NOT NULL,
  at      REAL NOT NULL,
  bank    TEXT NOT NULL,
  detail  BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX uses_turn ON uses (turn, session);
CREATE INDEX uses_session ON uses (session, n);
CREATE INDEX uses_at ON uses (at);

CREATE TABLE use_memories (
  use      INTEGER NOT NULL REFERENCES uses (n) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  memory   TEXT NOT NULL,
  bank     TEXT NOT NULL,
  revision INTEGER NOT NULL,
  score    REAL NOT NULL,
  chars    INTEGER NOT NULL,
  changed  INTEGER NOT NULL,
  PRIMARY KEY (use, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX use_memories_memory ON use_memories (memory, use);

-- The rules a session was told, so that its rules section stays the same to the byte.
CREATE TABLE context_sessions (
  session    TEXT NOT NULL,
  bank       TEXT NOT NULL,
  agent      TEXT NOT NULL,
  updated_at REAL NOT NULL,
  state      BLOB NOT NULL,
  PRIMARY KEY (session, bank, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX context_sessions_updated ON context_sessions (updated_at);
