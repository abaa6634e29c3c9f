-- name: any
SELECT 1 FROM forgotten LIMIT 1;

-- name: known
SELECT 1 FROM forgotten WHERE hash = ?;

-- name: add
INSERT OR IGNORE INTO forgotten (hash, kind, at) VALUES (?, ?, ?);
