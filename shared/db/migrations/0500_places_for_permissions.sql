-- Where in the text of a job the permission to fetch its archives goes; NULL: nowhere, or the text must be read for it.
-- It is known when the text is made, and then the text need not be read and written anew when the job is handed out.
ALTER TABLE job_specs ADD COLUMN source_spots int[];
