"""All SQL of the desk: a module for each noun, its statements beside it."""
