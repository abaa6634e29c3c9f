-- name: put
INSERT OR REPLACE INTO file_entries (path, folder, kind, target, revision, digest, held)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: drop
DELETE FROM file_entries WHERE path = ?;

-- name: move_folder
UPDATE OR REPLACE file_entries SET folder = ?, path = ? || substr(path, ?) WHERE folder = ?;

-- name: forget
DELETE FROM file_entries WHERE target IN (SELECT value FROM json_each(?));

-- name: of_targets
SELECT path, folder, kind, target, revision, digest, held FROM file_entries
WHERE target IN (SELECT value FROM json_each(?)) AND folder = ? AND kind = ?;

-- name: anywhere
SELECT path, folder, kind, target, revision, digest, held FROM file_entries
WHERE kind = 'memory' AND target IN (SELECT value FROM json_each(?));

-- name: of_paths
SELECT path, folder, kind, target, revision, digest, held FROM file_entries
WHERE path IN (SELECT value FROM json_each(?));

-- name: of_folder
SELECT path, folder, kind, target, revision, digest, held FROM file_entries WHERE folder = ? ORDER BY path;

-- name: any_held
SELECT 1 FROM file_entries WHERE held IS NOT NULL LIMIT 1;

-- name: of_held
SELECT path, folder, kind, target, revision, digest, held FROM file_entries WHERE held = ? ORDER BY path;

-- name: behind
SELECT e.path, e.folder, e.kind, e.target, e.revision, e.digest, e.held
FROM file_entries e JOIN memories m ON m.id = e.target JOIN banks b ON b.n = m.bank
WHERE e.kind = 'memory' AND e.held IS NULL AND b.trash_id IS NULL AND substr(e.folder, 1, 1) <> '.'
  AND (m.state <> 'live' OR json_extract(CAST(m.record AS TEXT), '$.revision') <> e.revision)
ORDER BY e.path;

-- name: folders
SELECT folder, count(*) FROM file_entries GROUP BY folder ORDER BY folder;

-- name: put_problem
INSERT OR REPLACE INTO file_problems (path, folder, digest, reason, at, notice) VALUES (?, ?, ?, ?, ?, ?);

-- name: drop_problem
DELETE FROM file_problems WHERE path = ?;

-- name: drop_folder_problems
DELETE FROM file_problems WHERE folder = ?;

-- name: problems
SELECT path, folder, digest, reason, at, notice FROM file_problems ORDER BY path;
