-- name: held_bytes
-- What a person's files take, those on their way included; index sandboxes_same.
SELECT coalesce(sum(size_bytes), 0)::bigint FROM sandboxes WHERE user_name = :user_name;

-- name: begin
-- A file of which the bytes follow.
INSERT INTO sandboxes (name, user_name) VALUES (:name, :user_name) RETURNING sandbox_id;

-- name: add_part
-- The next bytes, counted with them.
WITH grown AS (
    UPDATE sandboxes SET size_bytes = size_bytes + octet_length(:content::bytea), used_at = orrery_now()
     WHERE sandbox_id = :sandbox_id AND NOT is_complete RETURNING sandbox_id
)
INSERT INTO sandbox_parts (sandbox_id, part, content)
SELECT sandbox_id, :part::int, :content::bytea FROM grown;

-- name: complete
-- All bytes are there; nothing is changed where a complete file has the name.
UPDATE sandboxes s SET is_complete = true, checksum = :checksum::bigint, used_at = orrery_now()
 WHERE s.sandbox_id = :sandbox_id AND NOT s.is_complete
   AND NOT EXISTS (SELECT FROM sandboxes other WHERE other.name = s.name AND other.is_complete);

-- name: named
-- The complete file of a name; index sandboxes_name.
SELECT sandbox_id, user_name, size_bytes, checksum, used_at < orrery_now() - interval '1 day' AS is_use_to_tell
  FROM sandboxes WHERE name = :name AND is_complete;

-- name: same
-- The newest file of a person with this size and checksum; index sandboxes_same.
SELECT sandbox_id, name FROM sandboxes
 WHERE user_name = :user_name AND size_bytes = :size_bytes::bigint AND checksum = :checksum::bigint AND is_complete
 ORDER BY sandbox_id DESC LIMIT 1;

-- name: used
-- Somebody fetched it, or will.
UPDATE sandboxes SET used_at = orrery_now() WHERE sandbox_id = :sandbox_id;

-- name: part
-- Some bytes of it.
SELECT content FROM sandbox_parts WHERE sandbox_id = :sandbox_id AND part = :part::int;

-- name: forget
-- An upload that did not come to its end.
DELETE FROM sandboxes WHERE sandbox_id = :sandbox_id AND NOT is_complete;

-- name: forget_unused
-- A few of those that nobody has used for long, and of those whose upload stopped; index sandboxes_unused.
DELETE FROM sandboxes
 WHERE sandbox_id IN (
    SELECT sandbox_id FROM sandboxes
     WHERE used_at < orrery_now() - make_interval(secs => :kept_s::float8)
        OR (NOT is_complete AND used_at < orrery_now() - make_interval(secs => :stopped_s::float8))
     ORDER BY used_at LIMIT :at_most::int FOR UPDATE SKIP LOCKED);
