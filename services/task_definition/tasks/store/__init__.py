"""All SQL about tasks: a module for each noun, its statements beside it."""
