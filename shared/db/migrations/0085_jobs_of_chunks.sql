-- How many jobs the throttle of its share lets a chunk make; NULL: as many as any chunk (an older one, a merge).
ALTER TABLE chunks ADD COLUMN max_jobs int CHECK (max_jobs > 0);
