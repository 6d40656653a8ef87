-- name: known_vos
-- VOs that queues, accounts and scopes of the catalogue name; those of live tasks are among the last.
-- told by: STATES
SELECT DISTINCT vo FROM (
    SELECT vo FROM catalogue.scopes
    UNION ALL SELECT vo FROM users
    UNION ALL SELECT trim(both ' ' FROM one) FROM queues_in_force q
       CROSS JOIN LATERAL regexp_split_to_table(CASE jsonb_typeof(q.data -> 'vo_name')
           WHEN 'array' THEN (SELECT string_agg(name, ',') FROM jsonb_array_elements_text(q.data -> 'vo_name') name)
           ELSE q.data ->> 'vo_name' END, ',') AS one) named
 WHERE vo <> '';
