"""A submitted task is checked whole and stored, or every problem is named."""
