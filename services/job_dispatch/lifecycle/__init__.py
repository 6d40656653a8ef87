"""The way of a job from `defined` to its end: input, reports, outputs, commands."""
