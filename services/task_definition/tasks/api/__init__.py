"""What is answered over HTTP about tasks: one module for each path prefix."""
