-- name: insert
INSERT INTO memories (id, bank, state, tier, kind, pinned, subject, slot, session, fingerprint,
                      created_at, updated_at, expires_at, expires_set, record)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update
UPDATE memories SET state = ?, tier = ?, kind = ?, pinned = ?, subject = ?, slot = ?, session = ?, fingerprint = ?,
                    updated_at = ?, expires_at = ?, expires_set = ?, record = ?
WHERE id = ?;

-- name: by_id
SELECT m.bank, m.record, m.expires_set FROM memories m JOIN banks b ON b.n = m.bank
WHERE m.id = ? AND b.trash_id IS NULL;

-- name: by_id_anywhere
SELECT bank, record, expires_set FROM memories WHERE id = ?;

-- name: live_by_text
SELECT bank, record, expires_set FROM memories WHERE bank = ? AND fingerprint = ? AND state = 'live';

-- name: by_wording
SELECT m.bank, m.record, m.expires_set FROM wordings w JOIN memories m ON m.id = w.memory
WHERE w.bank = ? AND w.fingerprint = ? ORDER BY (m.state = 'live') DESC, m.n DESC;

-- name: live_by_subject
SELECT bank, record, expires_set FROM memories WHERE bank = ? AND subject = ? AND state = 'live' ORDER BY n DESC;

-- name: live_by_slot
SELECT bank, record, expires_set FROM memories WHERE bank = ? AND slot = ? AND state = 'live';

-- name: live_by_claim
SELECT m.bank, m.record, m.expires_set FROM claims c JOIN memories m ON m.id = c.memory
WHERE c.entity = ? AND c.property = ? AND m.bank = ? AND m.state = 'live' ORDER BY m.n DESC;

-- name: add_wording
INSERT OR IGNORE INTO wordings (bank, fingerprint, memory) VALUES (?, ?, ?);

-- name: remove_wordings
DELETE FROM wordings WHERE memory = ?;

-- name: reinforce
INSERT OR IGNORE INTO reinforcements (memory, cause) VALUES (?, ?);

-- name: unmark_reinforcement
DELETE FROM reinforcements WHERE memory = ? AND cause = ?;

-- name: marked_reinforcement
SELECT cause FROM reinforcements WHERE memory = ?1 AND substr(cause, 1, length(?2)) = ?2 LIMIT 1;

-- name: add_tag
INSERT OR IGNORE INTO memory_tags (bank, tag, memory) VALUES (?, ?, ?);

-- name: remove_tags
DELETE FROM memory_tags WHERE memory = ?;

-- name: add_entity
INSERT OR IGNORE INTO memory_entities (entity, memory) VALUES (?, ?);

-- name: remove_entities
DELETE FROM memory_entities WHERE memory = ?;

-- name: add_claim
INSERT OR REPLACE INTO claims (entity, property, memory, value) VALUES (?, ?, ?, ?);

-- name: remove_claims
DELETE FROM claims WHERE memory = ?;

-- name: of_bank
SELECT bank, record, expires_set FROM memories WHERE bank = ? AND n > ? ORDER BY n LIMIT ?;

-- name: scan
SELECT m.id, m.record FROM memories m JOIN banks b ON b.n = m.bank
WHERE m.id > ? AND m.state IN ('live', 'superseded') AND b.trash_id IS NULL ORDER BY m.id LIMIT ?;

-- name: scan_bank
SELECT m.id, m.record FROM memories m INDEXED BY memories_bank
WHERE m.bank = ? AND m.id > ? AND m.state IN ('live', 'superseded') ORDER BY m.id LIMIT ?;

-- name: due
SELECT m.bank, m.record, m.expires_set FROM memories m JOIN banks b ON b.n = m.bank
WHERE m.state = 'live' AND m.expires_at IS NOT NULL AND m.expires_at <= ? AND b.trash_id IS NULL
ORDER BY m.expires_at LIMIT ?;

-- name: next_due
SELECT m.expires_at FROM memories m JOIN banks b ON b.n = m.bank
WHERE m.state = 'live' AND m.expires_at IS NOT NULL AND b.trash_id IS NULL ORDER BY m.expires_at LIMIT 1;

-- name: page
SELECT m.record FROM memories m INDEXED BY {index}
WHERE m.bank = :bank
  AND m.state {states}
  AND (m.state <> 'live' OR m.expires_at IS NULL OR m.expires_at > :now)
  AND (:kind IS NULL OR m.kind = :kind)
  AND (:tier IS NULL OR m.tier = :tier)
  AND (:session IS NULL OR m.session = :session)
  AND (:tag IS NULL OR EXISTS (SELECT 1 FROM memory_tags t WHERE t.bank = m.bank AND t.tag = :tag AND t.memory = m.id))
  AND (:entity IS NULL OR EXISTS (SELECT 1 FROM memory_entities e WHERE e.entity = :entity AND e.memory = m.id))
  AND (:value IS NULL OR m.id IN (SELECT v.memory FROM vault_values x JOIN vault v ON v.ref = x.ref WHERE x.exact = :value))
  AND (:at IS NULL OR (m.{order_column}, m.id) {comparison} (:at, :id))
ORDER BY m.{order_column} {direction}, m.id {direction}
LIMIT :limit;

-- name: total
SELECT count(*) FROM memories m
WHERE m.bank = :bank
  AND m.state IN (SELECT value FROM json_each(:states))
  AND (m.state <> 'live' OR m.expires_at IS NULL OR m.expires_at > :now)
  AND (:kind IS NULL OR m.kind = :kind)
  AND (:tier IS NULL OR m.tier = :tier)
  AND (:session IS NULL OR m.session = :session)
  AND (:tag IS NULL OR EXISTS (SELECT 1 FROM memory_tags t WHERE t.bank = m.bank AND t.tag = :tag AND t.memory = m.id))
  AND (:entity IS NULL OR EXISTS (SELECT 1 FROM memory_entities e WHERE e.entity = :entity AND e.memory = m.id))
  AND (:value IS NULL OR m.id IN (SELECT v.memory FROM vault_values x JOIN vault v ON v.ref = x.ref WHERE x.exact = :value));

-- name: total_whole
SELECT (
  SELECT count(*) FROM memories m WHERE m.bank = :bank AND m.state IN (SELECT value FROM json_each(:states))
) - (
  SELECT count(*) FROM memories m
  WHERE +m.bank = :bank AND m.state = 'live' AND m.expires_at <= :now
    AND 'live' IN (SELECT value FROM json_each(:states))
);

-- name: tags
SELECT t.tag, count(*) FROM memory_tags t JOIN memories m ON m.id = t.memory
WHERE t.bank = ? AND m.state = 'live' AND (m.expires_at IS NULL OR m.expires_at > ?)
GROUP BY t.tag ORDER BY count(*) DESC, t.tag LIMIT ?;

-- name: pinned
SELECT m.record FROM memories m
WHERE m.bank = ? AND m.state = 'live' AND m.pinned = 1 ORDER BY m.created_at, m.id LIMIT ?;

-- name: of_entity
SELECT m.bank, m.record FROM memory_entities e JOIN memories m ON m.id = e.memory JOIN banks b ON b.n = m.bank
WHERE e.entity = ? AND m.state = 'live' AND b.trash_id IS NULL AND (m.expires_at IS NULL OR m.expires_at > ?)
ORDER BY m.n DESC LIMIT ?;

-- name: claims_of_entity
SELECT m.bank, m.record FROM claims c JOIN memories m ON m.id = c.memory JOIN banks b ON b.n = m.bank
WHERE c.entity = ? AND m.state = 'live' AND b.trash_id IS NULL AND (m.expires_at IS NULL OR m.expires_at > ?)
ORDER BY m.n DESC LIMIT ?;
