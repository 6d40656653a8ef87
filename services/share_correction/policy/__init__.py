"""What share correction decides, from values alone."""
