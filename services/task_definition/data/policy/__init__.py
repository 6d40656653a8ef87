"""Pure decisions about data: values in, decisions with reasons out."""
