-- The rule DETAILS (shared/auth/access.py) for statements that filter by it: the owner in the VO, production of the VO.
-- Lists of VOs are those of the reader; NULL stands for every VO, and '' for what is of none.
CREATE FUNCTION orrery_may_read(owner text, vo text, reader text, own_vos text[], produced_vos text[])
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT produced_vos IS NULL OR coalesce(vo, '') = ANY(produced_vos)
        OR (coalesce(owner, '') <> '' AND owner = reader AND (own_vos IS NULL OR coalesce(vo, '') = ANY(own_vos)))
$$;
