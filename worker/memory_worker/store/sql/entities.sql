-- name: insert
INSERT INTO entities (id, name, state, record) VALUES (?, ?, ?, ?);

-- name: update
UPDATE entities SET name = ?, state = ?, record = ? WHERE id = ?;

-- name: by_id
SELECT record FROM entities WHERE id = ?;

-- name: by_key
SELECT e.record FROM entity_names k JOIN entities e ON e.id = k.entity WHERE k.key = ? AND e.state = 'live'
ORDER BY (k.channel = 'name') DESC LIMIT 1;

-- name: add_name
INSERT INTO entity_names (key, channel, entity) VALUES (?, ?, ?)
ON CONFLICT (key, channel) DO NOTHING;

-- name: owner_of_name
SELECT entity FROM entity_names WHERE key = ? AND channel = ?;

-- name: move_names
UPDATE entity_names SET entity = ? WHERE entity = ?;

-- name: move_name
INSERT INTO entity_names (key, channel, entity) VALUES (?, ?, ?)
ON CONFLICT (key, channel) DO UPDATE SET entity = excluded.entity;

-- name: remove_names
DELETE FROM entity_names WHERE entity = ?;

-- name: remove_name
DELETE FROM entity_names WHERE key = ? AND channel = ? AND entity = ?;

-- name: move_memories
UPDATE OR IGNORE memory_entities SET entity = ? WHERE entity = ?;

-- name: move_claims
UPDATE OR IGNORE claims SET entity = ? WHERE entity = ?;

-- name: all
SELECT record FROM entities WHERE state = 'live' ORDER BY name, id;

-- name: every
SELECT record FROM entities WHERE state <> 'forgotten' ORDER BY id;

-- name: properties
SELECT record FROM properties ORDER BY name;

-- name: banks_of
SELECT DISTINCT m.bank FROM memory_entities x JOIN memories m ON m.id = x.memory JOIN banks b ON b.n = m.bank
WHERE x.entity = ? AND b.trash_id IS NULL;

-- name: is_named
SELECT 1 FROM memory_entities WHERE entity = ? LIMIT 1;

-- name: mentions_of
SELECT m.record FROM memory_entities x JOIN memories m ON m.id = x.memory WHERE x.entity = ? ORDER BY m.n LIMIT ?;

-- name: file_under
INSERT OR IGNORE INTO memory_entities (entity, memory) VALUES (?, ?);

-- name: unfile
DELETE FROM memory_entities WHERE entity = ? AND memory = ?;

-- name: move_claim
UPDATE OR IGNORE claims SET entity = ? WHERE entity = ? AND memory = ?;

-- name: page
SELECT e.record FROM entities e
WHERE e.state = 'live'
  AND EXISTS (SELECT 1 FROM memory_entities x JOIN memories m ON m.id = x.memory
              WHERE x.entity = e.id AND m.state = 'live' AND m.bank IN (SELECT value FROM json_each(:banks))
                AND (m.expires_at IS NULL OR m.expires_at > :now))
  AND (:query IS NULL OR e.id IN (SELECT k.entity FROM entity_names k WHERE instr(k.key, :query) > 0))
  AND (:name IS NULL OR (e.name, e.id) > (:name, :id))
ORDER BY e.name, e.id LIMIT :limit;

-- name: total
SELECT count(*) FROM entities e
WHERE e.state = 'live'
  AND EXISTS (SELECT 1 FROM memory_entities x JOIN memories m ON m.id = x.memory
              WHERE x.entity = e.id AND m.state = 'live' AND m.bank IN (SELECT value FROM json_each(:banks))
                AND (m.expires_at IS NULL OR m.expires_at > :now))
  AND (:query IS NULL OR e.id IN (SELECT k.entity FROM entity_names k WHERE instr(k.key, :query) > 0));

-- name: mentions
SELECT m.record FROM memory_entities x JOIN memories m ON m.id = x.memory
WHERE x.entity = :entity AND m.state = 'live' AND m.bank IN (SELECT value FROM json_each(:banks))
  AND (m.expires_at IS NULL OR m.expires_at > :now)
ORDER BY m.n DESC LIMIT :limit;

-- name: mention_total
SELECT count(*) FROM memory_entities x JOIN memories m ON m.id = x.memory
WHERE x.entity = :entity AND m.state = 'live' AND m.bank IN (SELECT value FROM json_each(:banks))
  AND (m.expires_at IS NULL OR m.expires_at > :now);

-- name: claims
SELECT m.record FROM claims c JOIN memories m ON m.id = c.memory
WHERE c.entity = :entity AND m.bank IN (SELECT value FROM json_each(:banks))
  AND (m.state = 'superseded' OR (m.state = 'live' AND (m.expires_at IS NULL OR m.expires_at > :now)))
ORDER BY (m.state = 'live') DESC, m.n DESC LIMIT :limit;

-- name: claimed
SELECT 1 FROM claims WHERE property = ? LIMIT 1;

-- name: visible_properties
SELECT p.record FROM properties p
WHERE EXISTS (SELECT 1 FROM claims c JOIN memories m ON m.id = c.memory
              WHERE c.property = p.name AND m.bank IN (SELECT value FROM json_each(:banks)))
   OR EXISTS (SELECT 1 FROM journal j WHERE j.target = p.name AND j.type = 'property.set'
              AND (j.owner IS NULL OR j.owner || '/' || j.bank IN (SELECT value FROM json_each(:private))))
ORDER BY p.name LIMIT :limit;

-- name: put_property
INSERT INTO properties (name, record) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET record = excluded.record;

-- name: property
SELECT record FROM properties WHERE name = ?;

-- name: remove_property
DELETE FROM properties WHERE name = ?;
