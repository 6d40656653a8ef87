"""A registered task gets its datasets and files: registered -> defined -> assigning or ready."""
