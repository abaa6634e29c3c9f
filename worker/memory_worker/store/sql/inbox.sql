-- name: insert
INSERT INTO inbox (turn, session, state, received_at, next_at, reason, bytes, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (turn) DO UPDATE SET session = excluded.session, state = excluded.state, reason = excluded.reason,
  bytes = excluded.bytes, payload = excluded.payload, next_at = excluded.next_at
WHERE inbox.state = 'parked' AND inbox.reason LIKE 'malformed%' AND excluded.state <> 'parked';

-- name: is_taken
SELECT EXISTS (SELECT 1 FROM inbox WHERE session = ? AND state IN ('waiting', 'working', 'queued'));

-- name: depth
SELECT count(*), coalesce(sum(bytes), 0) FROM inbox WHERE state IN ('waiting', 'working', 'queued', 'parked');

-- name: due
SELECT n, turn, session, payload, attempts, received_at FROM inbox
WHERE state = 'waiting' AND next_at <= ? ORDER BY next_at, n;

-- name: promote
UPDATE inbox SET state = 'waiting'
WHERE n = (SELECT min(n) FROM inbox WHERE session = (SELECT session FROM inbox WHERE turn = ?1) AND state = 'queued'
           AND state IN ('waiting', 'working', 'queued'))
  AND NOT EXISTS (SELECT 1 FROM inbox p WHERE p.session = inbox.session AND p.state IN ('waiting', 'working')
                  AND p.state IN ('waiting', 'working', 'queued'));

-- name: demote_all
UPDATE inbox SET state = 'queued'
WHERE state = 'waiting' AND EXISTS (SELECT 1 FROM inbox p WHERE p.session = inbox.session AND p.n <> inbox.n
                                    AND p.state IN ('waiting', 'working', 'queued'));

-- name: promote_all
UPDATE inbox SET state = 'waiting'
WHERE n IN (SELECT min(n) FROM inbox WHERE state IN ('waiting', 'working', 'queued')
            GROUP BY session HAVING max(state) = 'queued' AND min(state) = 'queued');

-- name: next_at
SELECT min(next_at) FROM inbox WHERE state = 'waiting';

-- name: work
UPDATE inbox SET state = 'working', attempts = attempts + 1 WHERE n = ?;

-- name: back
UPDATE inbox SET state = 'waiting', attempts = max(0, attempts - ?), next_at = ?, reason = ?
WHERE turn = ? AND state = 'working';

-- name: park
UPDATE inbox SET state = 'parked', reason = ?, raw = ?, payload = ? WHERE turn = ?;

-- name: payload
SELECT payload FROM inbox WHERE turn = ?;

-- name: done
UPDATE inbox SET state = 'done', reason = ?, payload = NULL, raw = NULL, bytes = 0 WHERE turn = ?;

-- name: recover
UPDATE inbox SET state = 'waiting' WHERE state = 'working';

-- name: retry
UPDATE inbox SET state = 'queued', attempts = 0, next_at = ?, reason = NULL WHERE state = 'parked' AND turn = ?;

-- name: retry_all
UPDATE inbox SET state = 'queued', attempts = 0, next_at = ?, reason = NULL
WHERE state = 'parked' AND payload IS NOT NULL;

-- name: state_of
SELECT state, session FROM inbox WHERE turn = ?;

-- name: backlog
SELECT count(*), min(received_at) FROM inbox WHERE state IN ('waiting', 'working', 'queued');

-- name: working
SELECT count(*) FROM inbox WHERE state = 'working';

-- name: waiting
SELECT reason, count(*) FROM inbox WHERE state = 'waiting' AND reason IS NOT NULL GROUP BY reason;

-- name: parked
SELECT turn, session, reason, received_at FROM inbox WHERE state = 'parked' ORDER BY n DESC LIMIT ?;

-- name: parked_total
SELECT count(*) FROM inbox WHERE state = 'parked';

-- name: drop_done
DELETE FROM inbox WHERE n IN (SELECT n FROM inbox WHERE state = 'done' AND received_at < ? LIMIT ?);

-- name: set_session_cursor
INSERT INTO session_cursors (session, message, updated_at) VALUES (?, ?, ?)
ON CONFLICT (session) DO UPDATE SET message = excluded.message, updated_at = excluded.updated_at;

-- name: session_cursor
SELECT message FROM session_cursors WHERE session = ?;

-- name: drop_session_cursors
DELETE FROM session_cursors WHERE session IN (SELECT session FROM session_cursors WHERE updated_at < ? LIMIT ?);
