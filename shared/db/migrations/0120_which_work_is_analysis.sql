-- The rule of shared/model/analysis.py, for statements: the type of the task decides, the label where there is none.
CREATE FUNCTION orrery_is_analysis(task_type text, label text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN coalesce(task_type, '') <> '' THEN task_type = 'anal'
                ELSE coalesce(label IN ('user', 'panda'), false) END
$$;
