-- A stage-in may be wanted before a tape that has it, or a disk to which it goes, is known: why it has not begun.
ALTER TABLE stage_ins ALTER COLUMN source_storage DROP NOT NULL, ALTER COLUMN destination_storage DROP NOT NULL,
    ADD COLUMN waits_for text;
