-- name: any
SELECT 1 FROM forgotten LIMIT 1;

-- name: known
SELECT 1 FROM forgotten WHERE hash = ?;

-- name: of_kind
SELECT hash FROM forgotten WHERE kind = ?;

-- name: add
INSERT OR IGNORE INTO forgotten (hash, kind, at) VALUES (?, ?, ?);
