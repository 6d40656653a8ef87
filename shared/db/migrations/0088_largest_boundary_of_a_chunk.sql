-- Brokerage asks queues for room for the largest boundary of a chunk, because a boundary is one job (groupBoundaryID 3 and
-- 4). Null: units of the chunk may be parted, or they have no boundary, or the chunk was offered before.
ALTER TABLE chunks ADD COLUMN largest_boundary jsonb;
COMMENT ON COLUMN chunks.largest_boundary IS
    'the most files, events and bytes of one boundary of the chunk, and how many boundaries it has';
