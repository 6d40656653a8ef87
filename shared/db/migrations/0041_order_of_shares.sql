-- A task takes the first leaf of the shares that matches, so their order must be kept: the order of insertion.
CREATE SEQUENCE share_positions;
ALTER TABLE shares ADD COLUMN position bigint NOT NULL DEFAULT nextval('share_positions');
ALTER SEQUENCE share_positions OWNED BY shares.position;
