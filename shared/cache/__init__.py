"""Redis: absolute values with a version and an age (queue statistics, network metrics).

Losing it costs latency, never correctness: every failure is a miss.
"""

from shared.cache.cache import Cache, NullCache, RedisCache, Stamped

__all__ = ["Cache", "NullCache", "RedisCache", "Stamped"]
