-- Usage is folded from events into buckets; the samples that were taken before went into them.
DROP TABLE usage_history;
