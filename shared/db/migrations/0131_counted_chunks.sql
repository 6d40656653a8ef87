-- Chunks whose jobs are in the statistics: who still expects them, because the news was lost, finds out here.

CREATE TABLE counted_chunks (
    chunk_id bigint PRIMARY KEY,
    counted_at timestamptz NOT NULL DEFAULT orrery_now()
);
CREATE INDEX counted_chunks_age ON counted_chunks (counted_at);
