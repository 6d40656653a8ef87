"""Pure decisions about tasks: values in, decisions with reasons out."""
