"""All SQL of share_correction, its statements beside it."""
