-- name: insert
INSERT INTO banks (name, owner, record) VALUES (?, ?, ?);

-- name: update
UPDATE banks SET record = ?, trash_id = ?, trashed_at = ? WHERE n = ?;

-- name: by_name
SELECT n, record FROM banks WHERE name = ? AND trash_id IS NULL;

-- name: by_number
SELECT n, record FROM banks WHERE n = ?;

-- name: trashed
SELECT n, record FROM banks WHERE name = ?1 AND trash_id IS NOT NULL AND (?2 IS NULL OR trash_id = ?2)
ORDER BY trashed_at DESC, n DESC LIMIT 1;

-- name: all
SELECT n, record FROM banks ORDER BY name, n;

-- name: counts
SELECT bank, state, count(*) FROM memories INDEXED BY memories_page GROUP BY bank, state;

-- name: lapsed_counts
SELECT bank, count(*) FROM memories INDEXED BY memories_expiry WHERE state = 'live' AND expires_at <= ? GROUP BY bank;

-- name: rule_counts
SELECT bank, count(*) FROM rules GROUP BY bank;

-- name: suggestion_counts
SELECT bank, count(*) FROM suggestions WHERE state = 'open' GROUP BY bank;

-- name: remove
DELETE FROM banks WHERE n = ?;

-- name: holds
SELECT 1 FROM memories WHERE bank = ? AND state = 'live' UNION ALL SELECT 1 FROM rules WHERE bank = ? LIMIT 1;
