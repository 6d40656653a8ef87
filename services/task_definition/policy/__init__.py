"""Pure decisions of task_definition: values in, decisions with reasons out; no input, output or clock."""
