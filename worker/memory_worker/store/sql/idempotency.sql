-- name: find
SELECT function, request, reply FROM idempotency WHERE principal = ? AND key = ? AND at > ?;

-- name: put
INSERT INTO idempotency (principal, key, at, function, request, reply) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (principal, key) DO UPDATE SET at = excluded.at, function = excluded.function,
  request = excluded.request, reply = excluded.reply;

-- name: drop_old
DELETE FROM idempotency WHERE (principal, key) IN (SELECT principal, key FROM idempotency WHERE at < ? LIMIT ?);
