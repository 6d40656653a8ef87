"""Copies of one job (useJobCloning): several have the same input, and all but one are taken back."""
