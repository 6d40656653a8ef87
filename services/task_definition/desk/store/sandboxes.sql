-- name: hold_uploads
-- One upload of a person after the other begins, in all replicas: what it reserves is seen by the next.
SELECT pg_advisory_xact_lock(hashtext('sandboxes'), hashtext(:user_name));

-- name: standing
-- What a person's files take, what uploads on their way may take, and how many these are; index sandboxes_same.
SELECT coalesce(sum(CASE WHEN is_complete THEN size_bytes ELSE reserved_bytes END), 0)::bigint AS held_bytes,
       count(*) FILTER (WHERE NOT is_complete) AS n_under_way
  FROM sandboxes
 WHERE user_name = :user_name
   AND (is_complete OR used_at > orrery_now() - make_interval(secs => :stopped_s::float8));

-- name: begin
-- A file of which the bytes follow, with the room that it may take.
-- done for: OWN
INSERT INTO sandboxes (name, user_name, vo, reserved_bytes)
VALUES (:name, :user_name, :vo, :reserved_bytes) RETURNING sandbox_id;

-- name: add_part
-- The next bytes, counted with them, if they are within what was reserved.
-- done for: OWN
WITH grown AS (
    UPDATE sandboxes SET size_bytes = size_bytes + octet_length(:content::bytea), used_at = orrery_now()
     WHERE sandbox_id = :sandbox_id AND NOT is_complete
       AND size_bytes + octet_length(:content::bytea) <= reserved_bytes RETURNING sandbox_id
)
INSERT INTO sandbox_parts (sandbox_id, part, content)
SELECT sandbox_id, :part::int, :content::bytea FROM grown;

-- name: complete
-- All bytes are there; nothing is changed where a complete file of its owner has the name.
-- done for: OWN
UPDATE sandboxes s SET is_complete = true, checksum = :checksum::bigint, used_at = orrery_now()
 WHERE s.sandbox_id = :sandbox_id AND NOT s.is_complete
   AND NOT EXISTS (SELECT FROM sandboxes other
                    WHERE other.name = s.name AND other.user_name = s.user_name AND other.is_complete);

-- name: own
-- A person's complete file of a name; rule OWN; index sandboxes_of_owners.
-- told by: OWN
SELECT size_bytes, checksum FROM sandboxes WHERE name = :name AND user_name = :user_name AND is_complete;

-- name: named
-- The complete files of a name, each of another person; rule SOURCES; index sandboxes_of_owners.
-- told by: SOURCES
SELECT sandbox_id, user_name, vo, size_bytes, checksum, used_at < orrery_now() - interval '1 day' AS is_use_to_tell
  FROM sandboxes WHERE name = :name AND is_complete ORDER BY sandbox_id;

-- name: of_task
-- The complete file of a name that a task names, of who submitted the task, for who has a permission for the task;
-- index sandboxes_of_owners.
-- The list of good runs is named without its ending.
-- told by: SOURCES
SELECT s.sandbox_id, s.user_name, s.vo, s.size_bytes, s.checksum,
       s.used_at < orrery_now() - interval '1 day' AS is_use_to_tell
  FROM tasks t
  JOIN sandboxes s ON s.name = :name AND s.user_name = coalesce(t.submitted_by, t.user_name) AND s.is_complete
  JOIN task_parameters p ON p.task_id = t.task_id
 WHERE t.task_id = :task_id AND p.task_parameters::text ~ :word;

-- name: same
-- The newest file of a person with this size and checksum, of one of these VOs (NULL: of any) or of none; rule OWN;
-- index sandboxes_same.
-- told by: OWN
SELECT sandbox_id, name FROM sandboxes
 WHERE user_name = :user_name AND size_bytes = :size_bytes::bigint AND checksum = :checksum::bigint AND is_complete
   AND (vo IS NULL OR :vos::text[] IS NULL OR vo = ANY (:vos::text[]))
 ORDER BY sandbox_id DESC LIMIT 1;

-- name: used
-- Somebody fetched it, or will.
-- done for: OWN
UPDATE sandboxes SET used_at = orrery_now() WHERE sandbox_id = :sandbox_id;

-- name: part
-- Some bytes of it.
-- told by: OWN
SELECT content FROM sandbox_parts WHERE sandbox_id = :sandbox_id AND part = :part::int;

-- name: forget
-- An upload that did not come to its end.
-- done for: OWN
DELETE FROM sandboxes WHERE sandbox_id = :sandbox_id AND NOT is_complete;

-- name: forget_unused
-- A few of those that nobody has used for long, and of those whose upload stopped; index sandboxes_unused.
DELETE FROM sandboxes
 WHERE sandbox_id IN (
    SELECT sandbox_id FROM sandboxes
     WHERE used_at < orrery_now() - make_interval(secs => :kept_s::float8)
        OR (NOT is_complete AND used_at < orrery_now() - make_interval(secs => :stopped_s::float8))
     ORDER BY used_at LIMIT :at_most::int FOR UPDATE SKIP LOCKED);
