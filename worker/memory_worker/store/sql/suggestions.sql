-- name: insert
INSERT INTO suggestions (id, bank, state, evidence, created_at, expires_at, record) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: add_target
INSERT OR IGNORE INTO suggestion_targets (target, suggestion) VALUES (?, ?);

-- name: update
UPDATE suggestions SET state = ?, record = ? WHERE id = ?;

-- name: by_id
SELECT bank, record FROM suggestions WHERE id = ?;

-- name: by_evidence
SELECT bank, record FROM suggestions WHERE bank = ? AND evidence = ? AND state IN ('open', 'rejected')
ORDER BY created_at DESC LIMIT 1;

-- name: open_of_target
SELECT s.bank, s.record FROM suggestion_targets t JOIN suggestions s ON s.id = t.suggestion
WHERE t.target = ? AND s.state = 'open' ORDER BY s.created_at, s.id LIMIT ?;

-- name: page
SELECT s.bank, s.record FROM suggestions s
WHERE s.bank IN (SELECT value FROM json_each(:banks)) AND s.state = :state
  AND (:target IS NULL OR EXISTS (SELECT 1 FROM suggestion_targets t WHERE t.suggestion = s.id AND t.target = :target))
  AND (:at IS NULL OR (s.created_at, s.id) > (:at, :id))
ORDER BY s.created_at, s.id LIMIT :limit;

-- name: counts
SELECT state, count(*) FROM suggestions
WHERE bank IN (SELECT value FROM json_each(:banks))
  AND (:target IS NULL OR EXISTS (SELECT 1 FROM suggestion_targets t WHERE t.suggestion = id AND t.target = :target))
GROUP BY state;

-- name: lapsed
SELECT bank, record FROM suggestions WHERE state = 'open' AND expires_at <= ? ORDER BY expires_at LIMIT ?;
