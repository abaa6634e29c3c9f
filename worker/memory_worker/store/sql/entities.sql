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

-- name: mentioned
SELECT DISTINCT e.record FROM entities e JOIN memory_entities x ON x.entity = e.id JOIN memories m ON m.id = x.memory
WHERE e.state = 'live' AND m.state = 'live' AND m.bank IN (SELECT value FROM json_each(:banks))
  AND (:query IS NULL OR e.id IN (SELECT k.entity FROM entity_names k WHERE instr(k.key, :query) > 0))
ORDER BY e.name, e.id;

-- name: put_property
INSERT INTO properties (name, record) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET record = excluded.record;

-- name: property
SELECT record FROM properties WHERE name = ?;

-- name: properties
SELECT record FROM properties ORDER BY name;

-- name: remove_property
DELETE FROM properties WHERE name = ?;
