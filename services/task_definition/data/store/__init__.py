"""All SQL about data: a module for each noun, its statements beside it."""
