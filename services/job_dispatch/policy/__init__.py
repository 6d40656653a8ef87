"""Pure decisions of the dispatcher: which lane is next, what fits a pilot, what a report means, where a job goes."""
