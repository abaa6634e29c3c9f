-- name: put
INSERT INTO rules (bank, name, record) VALUES (?, ?, ?)
ON CONFLICT (bank, name) DO UPDATE SET record = excluded.record;

-- name: remove
DELETE FROM rules WHERE bank = ? AND name = ?;

-- name: last_record
SELECT coalesce(after, before) FROM journal
WHERE target = ? AND type = 'rule.set' AND bank = ? AND coalesce(after, before) IS NOT NULL
ORDER BY seq DESC LIMIT 1;

-- name: by_name
SELECT record FROM rules WHERE bank = ? AND name = ?;

-- name: of_bank
SELECT record FROM rules WHERE bank = ?;

-- name: of_banks
SELECT b.name, r.record FROM rules r JOIN banks b ON b.n = r.bank
WHERE b.trash_id IS NULL AND b.name IN (SELECT value FROM json_each(?));

-- name: put_line
INSERT INTO learned_lines (bank, fingerprint, state, record) VALUES (?, ?, ?, ?)
ON CONFLICT (bank, fingerprint) DO UPDATE SET state = excluded.state, record = excluded.record;

-- name: line
SELECT state, record FROM learned_lines WHERE bank = ? AND fingerprint = ?;

-- name: lines
SELECT fingerprint, state, record FROM learned_lines WHERE bank = ?;
