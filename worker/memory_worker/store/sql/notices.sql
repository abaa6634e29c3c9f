-- name: insert
INSERT INTO notices (id, bank, at, acked_at, record) VALUES (?, ?, ?, ?, ?);

-- name: update
UPDATE notices SET acked_at = ?, record = ? WHERE id = ?;

-- name: by_id
SELECT bank, record FROM notices WHERE id = ?;

-- name: page
SELECT bank, record FROM notices
WHERE bank IN (SELECT value FROM json_each(:banks)) AND (:acked OR acked_at IS NULL)
  AND (:at IS NULL OR (at, id) > (:at, :id))
ORDER BY at, id LIMIT :limit;

-- name: total
SELECT count(*) FROM notices
WHERE bank IN (SELECT value FROM json_each(:banks)) AND (:acked OR acked_at IS NULL);
