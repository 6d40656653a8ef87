-- Whose token reported a worker first: nobody else may say what became of it. Absent where nothing was noted.
ALTER TABLE workers ADD COLUMN subject text;
