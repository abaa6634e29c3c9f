-- A bank listed by its newest changes is read in the order of an index instead of sorted whole for every page. Partial,
-- so that no query that does not ask for live memories by their change can take it for the index of pages.
CREATE INDEX memories_updated ON memories (bank, updated_at, id) WHERE state = 'live';

-- A bank gone through by id (export, rebuilt files and indexes, forgetting) likewise.
CREATE INDEX memories_bank ON memories (bank, id);
