-- Whether tasks of a VO may read a dataset: it is of that VO or of none, or opened for all.
CREATE FUNCTION catalogue.may_be_read(d catalogue.datasets, reading_vo text) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT d.readable_by_all
        OR coalesce(d.vo, (SELECT s.vo FROM catalogue.scopes s WHERE s.scope = d.owning_scope), '') IN ('', reading_vo)
$$;
