"""What share_correction answers over HTTP."""
