-- name: insert
INSERT INTO uses (turn, session, at, bank, detail) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (turn, session) DO NOTHING;

-- name: insert_memory
INSERT INTO use_memories (use, position, memory, bank, revision, score, chars, changed)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
WHERE EXISTS (SELECT 1 FROM memories WHERE id = ?3 AND state <> 'forgotten');

-- name: put_session
INSERT INTO context_sessions (session, bank, agent, updated_at, state) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (session, bank, agent) DO UPDATE SET updated_at = excluded.updated_at, state = excluded.state;

-- name: of_turn
SELECT n, turn, session, at, bank, detail FROM uses WHERE turn = ? AND (? IS NULL OR session = ?) AND n < ?
ORDER BY n DESC LIMIT ?;

-- name: of_session
SELECT n, turn, session, at, bank, detail FROM uses WHERE session = ? ORDER BY n DESC LIMIT ?;

-- name: of_memory
SELECT u.n, u.turn, u.session, u.at, u.bank, u.detail FROM use_memories m JOIN uses u ON u.n = m.use
WHERE m.memory = ? AND m.use < ? GROUP BY u.n ORDER BY u.n DESC LIMIT ?;

-- name: memories
SELECT use, memory, bank, revision, score, chars, changed FROM use_memories
WHERE use IN (SELECT value FROM json_each(?)) ORDER BY use, position;

-- name: session_states
SELECT session, bank, agent, state FROM context_sessions WHERE session = ?;

-- name: memory_at
SELECT after FROM journal
WHERE target = ? AND type LIKE 'memory.%' AND after IS NOT NULL
  AND json_extract(CAST(after AS TEXT), '$.revision') = ?
ORDER BY seq DESC LIMIT 1;

-- name: rule_at
SELECT after FROM journal
WHERE target = ? AND type = 'rule.set' AND bank = ? AND after IS NOT NULL
  AND json_extract(CAST(after AS TEXT), '$.revision') = ?
ORDER BY seq DESC LIMIT 1;

-- name: live_total
SELECT (SELECT coalesce(max(seq), 0) FROM journal),
       (SELECT count(*) FROM memories WHERE bank = ? AND state = 'live');

-- name: drop_old
DELETE FROM uses WHERE n IN (SELECT n FROM uses WHERE at < ? ORDER BY at LIMIT ?);

-- name: drop_old_sessions
DELETE FROM context_sessions WHERE (session, bank, agent) IN
  (SELECT session, bank, agent FROM context_sessions WHERE updated_at < ? LIMIT ?);

-- name: forget_memory
DELETE FROM use_memories WHERE memory = ?;

-- name: forget_bank_memories
DELETE FROM use_memories WHERE bank = ?;

-- name: forget_bank_uses
DELETE FROM uses WHERE bank = ?;

-- name: forget_bank_sessions
DELETE FROM context_sessions WHERE bank = ?;
