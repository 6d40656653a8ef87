"""The functional core of task_definition: values in, decisions with their reasons out; no input or output, no clock."""
