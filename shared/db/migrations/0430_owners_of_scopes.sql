-- The scope that says whose a name is: its first field, of user and group data the first two. Unmerged output has that of
-- the final one. As `shared.model.names.owning_scope`.
CREATE FUNCTION catalogue.owning_scope(name text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN n LIKE 'user.%' OR n LIKE 'group.%' THEN split_part(n, '.', 1) || '.' || split_part(n, '.', 2)
                ELSE split_part(n, '.', 1) END
      FROM regexp_replace(name, '^(panda\.um\.)+', '') AS n
$$;

-- To whom scopes belong: to a VO ('': to none, everybody may read), and to a person where it is a user's.
CREATE TABLE catalogue.scopes (
    scope text PRIMARY KEY,
    vo text NOT NULL,
    owner text NOT NULL DEFAULT '',
    claimed_by text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT orrery_now()
);

-- Writes that were refused, for those to whom the scope belongs: the last one of each caller and kind, and how many.
CREATE TABLE catalogue.refused_writes (
    scope text NOT NULL,
    caller text NOT NULL,
    verb text NOT NULL,
    dataset text NOT NULL,
    cause text NOT NULL,
    n_times bigint NOT NULL DEFAULT 1,
    first_at timestamptz NOT NULL DEFAULT orrery_now(),
    last_at timestamptz NOT NULL DEFAULT orrery_now(),
    PRIMARY KEY (scope, caller, verb)
);

ALTER TABLE catalogue.datasets
    ADD COLUMN owning_scope text NOT NULL GENERATED ALWAYS AS (catalogue.owning_scope(name)) STORED,
    ADD COLUMN readable_by_all boolean NOT NULL DEFAULT false;

-- What there is: a scope belongs to the VO whose tasks alone write in it, else to none.
INSERT INTO catalogue.scopes (scope, vo, owner, claimed_by)
SELECT found.scope, CASE WHEN count(DISTINCT found.vo) = 1 THEN min(found.vo) ELSE '' END,
       CASE WHEN found.scope LIKE 'user.%' THEN split_part(found.scope, '.', 2) ELSE '' END, 'migration'
  FROM (SELECT catalogue.owning_scope(d.dataset_name) AS scope, t.vo FROM task_datasets d JOIN tasks t USING (task_id)
         WHERE d.type IN ('output', 'log', 'trn_output', 'trn_log', 'tmpl_output', 'tmpl_log')
        UNION SELECT owning_scope, vo FROM catalogue.datasets) found
 GROUP BY found.scope;
