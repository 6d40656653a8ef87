"""Pure decisions about parameters and work queues: values in, decisions with reasons out."""
