-- name: of_bank
SELECT (SELECT coalesce(max(seq), 0) FROM journal), id, tier, created_at, json_extract(CAST(record AS TEXT), '$.about')
FROM memories
WHERE bank = ? AND state = 'live' AND json_array_length(CAST(record AS TEXT), '$.about') > 0;
