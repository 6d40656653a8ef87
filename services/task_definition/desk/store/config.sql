-- name: parameters
-- Runtime parameters that are set; every filter may be NULL.
-- told by: MEMBERS
SELECT app, component, key, nullif(vo, '') AS vo, value, type, description, changed_at, changed_by FROM parameters
 WHERE (:app::text IS NULL OR app = :app) AND (:component::text IS NULL OR component = :component)
   AND (:key::text IS NULL OR key = :key) AND (:vo::text IS NULL OR vo = :vo)
 ORDER BY app, component, key, vo;

-- name: put_parameter
-- A parameter is set; without a description the one it had stays.
-- done for: OPERATORS
INSERT INTO parameters (app, component, key, vo, value, type, description, changed_at, changed_by)
VALUES (:app, :component, :key, :vo, :value, :type, :description, orrery_now(), :changed_by)
ON CONFLICT (app, component, key, vo) DO UPDATE
   SET value = excluded.value, type = excluded.type, changed_at = excluded.changed_at,
       changed_by = excluded.changed_by,
       description = CASE WHEN excluded.description = '' THEN parameters.description ELSE excluded.description END;

-- name: forget_parameter
-- A parameter has its default again.
-- done for: OPERATORS
DELETE FROM parameters WHERE app = :app AND component = :component AND key = :key AND vo = :vo;

-- name: next_version
-- The parameters changed: who keeps a copy reads them again.
-- done for: OPERATORS
UPDATE versions SET version = version + 1, changed_at = orrery_now() WHERE name = 'config' RETURNING version;
