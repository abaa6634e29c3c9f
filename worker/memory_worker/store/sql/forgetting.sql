-- name: put
INSERT INTO forgettings (id, at, state, steps, plan, receipt) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, steps = excluded.steps, plan = excluded.plan,
  receipt = excluded.receipt;

-- name: pending
SELECT id, at, state, steps, plan, receipt FROM forgettings WHERE state = 'pending' ORDER BY at, id;

-- name: by_id
SELECT id, at, state, steps, plan, receipt FROM forgettings WHERE id = ?;

-- name: memories
SELECT id, bank, record FROM memories WHERE state <> 'forgotten' AND id > ? ORDER BY id LIMIT ?;

-- name: memories_of_bank
SELECT id, bank, record FROM memories WHERE bank = ? AND state <> 'forgotten' AND id > ? ORDER BY id LIMIT ?;

-- name: memory
SELECT id, bank, record FROM memories WHERE id = ?;

-- name: empty_memory
UPDATE memories SET state = 'forgotten', tier = 'inferred', kind = 'fact', pinned = 0, subject = NULL, slot = NULL,
  session = NULL, fingerprint = ?, expires_at = NULL, record = ? WHERE id = ?;

-- name: wordings
SELECT fingerprint FROM wordings WHERE memory = ?;

-- name: rewrite_memory
UPDATE memories SET record = ? WHERE id = ?;

-- name: empty_journal_of
UPDATE journal SET before = NULL, after = NULL, session = NULL, cause_id = '' WHERE target = ?;

-- name: journal_of
SELECT before, after FROM journal WHERE target = ? AND type LIKE 'memory.%';

-- name: remove_lines_of_bank
DELETE FROM learned_lines WHERE bank = ?;

-- name: remove_targets_of_bank
DELETE FROM suggestion_targets WHERE suggestion IN (SELECT id FROM suggestions WHERE bank = ?);

-- name: remove_suggestions_of_bank
DELETE FROM suggestions WHERE bank = ?;

-- name: remove_notices_of_bank
DELETE FROM notices WHERE bank = ?;

-- The rows of its memories are emptied by memory: an older bank of that name had others.
-- name: empty_journal_of_bank
UPDATE journal SET before = NULL, after = NULL, session = NULL, cause_id = ''
WHERE bank = ? AND type NOT LIKE 'memory.%' AND type NOT LIKE 'bank.%';

-- name: journal_holding
SELECT seq, target, before, after FROM journal WHERE (before IS NOT NULL OR after IS NOT NULL) AND seq > ?
ORDER BY seq LIMIT ?;

-- name: empty_journal_row
UPDATE journal SET before = NULL, after = NULL, session = NULL, cause_id = '' WHERE seq = ?;

-- name: rules
SELECT bank, name, record FROM rules;

-- name: lines
SELECT bank, fingerprint, record FROM learned_lines;

-- name: remove_line
DELETE FROM learned_lines WHERE bank = ? AND fingerprint = ?;

-- name: suggestions
SELECT id, record FROM suggestions;

-- name: suggestion
SELECT record FROM suggestions WHERE id = ?;

-- name: rewrite_suggestion
UPDATE suggestions SET record = ? WHERE id = ?;

-- name: remove_suggestion_targets
DELETE FROM suggestion_targets WHERE suggestion = ?;

-- name: remove_suggestion
DELETE FROM suggestions WHERE id = ?;

-- name: notices
SELECT id, record FROM notices;

-- name: remove_notice
DELETE FROM notices WHERE id = ?;

-- name: replies
SELECT principal, key, reply FROM idempotency;

-- name: remove_reply
DELETE FROM idempotency WHERE principal = ? AND key = ?;

-- name: turns
SELECT turn, session, payload, raw FROM inbox WHERE payload IS NOT NULL OR raw IS NOT NULL;

-- name: empty_turn
UPDATE inbox SET turn = 'forgotten-' || n, session = 'forgotten-' || n, state = 'done', reason = 'forgotten',
  payload = NULL, raw = NULL, bytes = 0
WHERE turn = ?;

-- name: banks
SELECT n, record FROM banks;

-- name: put_key
INSERT OR IGNORE INTO vault_keys (owner, wrapped) VALUES (?, ?);

-- name: key
SELECT wrapped FROM vault_keys WHERE owner = ?;

-- name: seal
INSERT INTO vault (ref, owner, memory, bank, exact, sealed) VALUES (?, ?, ?, ?, ?, ?);

-- name: sealed
SELECT owner, memory, bank, sealed FROM vault WHERE ref = ?;

-- name: by_exact
SELECT memory FROM vault WHERE bank = ? AND exact = ?;

-- name: drop_unused_keys
DELETE FROM vault_keys WHERE NOT EXISTS (SELECT 1 FROM vault v WHERE v.owner = vault_keys.owner);

-- name: any_key
SELECT owner, wrapped FROM vault_keys LIMIT 1;

-- name: mark_value
INSERT OR IGNORE INTO vault_values (exact, ref) VALUES (?, ?);

-- name: has_sealed
SELECT 1 FROM vault WHERE memory = ?;

-- name: unseal
DELETE FROM vault WHERE memory = ?;

-- name: all_sealed
SELECT v.ref, v.owner, k.wrapped, v.memory, v.sealed FROM vault v JOIN vault_keys k ON k.owner = v.owner
WHERE v.ref > ? ORDER BY v.ref LIMIT ?;
