"""SQL that is not of one kind of jobs alone: a module for each noun, its statements beside it."""
