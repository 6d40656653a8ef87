"""Rules of brokerage that a queue must keep to be loaded at all, beyond the ranges of its fields."""

from shared.brokerage.zero_share import check_zero_share

GRID_CHECKS = (check_zero_share,)
