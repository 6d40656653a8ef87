"""Pure decisions of the dispatcher: the next lane, what fits a pilot, a report's meaning, next states."""
