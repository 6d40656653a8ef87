"""What is answered over HTTP about data: one module for each path prefix."""
