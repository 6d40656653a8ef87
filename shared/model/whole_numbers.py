"""How large whole numbers may be: columns of 4 and 8 bytes, ids, and seeds of random choices."""

LARGEST_INT4 = 2**31 - 1
LARGEST_INT8 = 2**63 - 1
LARGEST_ID = LARGEST_INT8
#: a seed is not negative and fits into a column of 8 bytes
SEED_BITS = 62
