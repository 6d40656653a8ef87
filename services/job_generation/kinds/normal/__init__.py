"""Jobs that process the task's input: the steps make, count and settle them."""
