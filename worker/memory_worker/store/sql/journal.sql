-- Not one statement: RETURNING costs more the more the transaction has changed, 2 ms a row at a few thousand.
-- name: raise_bank_seq
UPDATE bank_seqs SET seq = seq + 1 WHERE bank = ?;

-- name: first_bank_seq
INSERT INTO bank_seqs (bank, seq) VALUES (?, 1);

-- name: bank_seq
SELECT seq FROM bank_seqs WHERE bank = ?;

-- name: append
INSERT INTO journal (id, at, bank, owner, bank_seq, type, target, actor_route, actor_principal,
                     cause_kind, cause_id, session, before, after)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: head
SELECT coalesce(max(seq), 0) FROM journal;

-- name: after
SELECT seq, id, at, bank, owner, bank_seq, type, target, actor_route, actor_principal,
       cause_kind, cause_id, session, before, after
FROM journal WHERE seq > ? ORDER BY seq LIMIT ?;

-- name: by_id
SELECT seq, id, at, bank, owner, bank_seq, type, target, actor_route, actor_principal,
       cause_kind, cause_id, session, before, after
FROM journal WHERE id = ?;

-- name: by_cause
SELECT seq, id, at, bank, owner, bank_seq, type, target, actor_route, actor_principal,
       cause_kind, cause_id, session, before, after
FROM journal WHERE cause_id = ? ORDER BY seq DESC LIMIT ?;

-- name: by_session
SELECT seq, id, at, bank, owner, bank_seq, type, target, actor_route, actor_principal,
       cause_kind, cause_id, session, before, after
FROM journal WHERE session = ? ORDER BY seq DESC LIMIT ?;

-- name: of_target
SELECT seq, id, at, bank, owner, bank_seq, type, target, actor_route, actor_principal,
       cause_kind, cause_id, session, before, after
FROM journal WHERE target = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: newest
SELECT seq, id, at, bank, owner, bank_seq, type, target, actor_route, actor_principal,
       cause_kind, cause_id, session, before, after
FROM journal
WHERE seq < :before_seq
  AND (:bank IS NULL OR bank = :bank)
  AND (:target IS NULL OR target = :target)
  AND (:cause IS NULL OR cause_id = :cause)
  AND (:cause_kind IS NULL OR cause_kind = :cause_kind)
  AND (:session IS NULL OR session = :session)
  AND (:route IS NULL OR actor_route = :route)
  AND (:principal IS NULL OR actor_principal = :principal)
  AND (owner IS NULL OR owner || '/' || bank IN (SELECT value FROM json_each(:private)))
ORDER BY seq DESC LIMIT :limit;

-- name: oldest
SELECT seq, id, at, bank, owner, bank_seq, type, target, actor_route, actor_principal,
       cause_kind, cause_id, session, before, after
FROM journal
WHERE seq > :after_seq
  AND (:bank IS NULL OR bank = :bank)
  AND (:target IS NULL OR target = :target)
  AND (:cause IS NULL OR cause_id = :cause)
  AND (:cause_kind IS NULL OR cause_kind = :cause_kind)
  AND (:session IS NULL OR session = :session)
  AND (:route IS NULL OR actor_route = :route)
  AND (:principal IS NULL OR actor_principal = :principal)
  AND (owner IS NULL OR owner || '/' || bank IN (SELECT value FROM json_each(:private)))
ORDER BY seq LIMIT :limit;

-- name: move_cursor
INSERT INTO cursors (reader, seq) VALUES (?, ?)
ON CONFLICT (reader) DO UPDATE SET seq = excluded.seq;

-- name: cursors
SELECT reader, seq FROM cursors ORDER BY reader;

-- name: count
INSERT INTO counters (name, value) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = value + excluded.value;

-- name: counters
SELECT name, value FROM counters ORDER BY name;

-- name: get_meta
SELECT value FROM meta WHERE key = ?;

-- name: set_meta
INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
