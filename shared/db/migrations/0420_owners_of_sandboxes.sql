-- Names of uploaded files are their owner's: nobody finds out by uploading, or takes away, a name of somebody else.
-- vo: the VO for which it was uploaded, where the uploader acts for one; reserved_bytes: what an upload on its way may take.
ALTER TABLE sandboxes ADD COLUMN vo text, ADD COLUMN reserved_bytes bigint NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX sandboxes_of_owners ON sandboxes (name, user_name) WHERE is_complete;
DROP INDEX sandboxes_name;
