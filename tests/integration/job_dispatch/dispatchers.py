"""Dispatchers on one database, as replicas of one service."""

from __future__ import annotations

import random

from prometheus_client import CollectorRegistry

from services.job_dispatch.app import Parts, build_parts
from shared.auth import Authority
from shared.cache import NullCache
from shared.config.settings import Settings
from shared.db import Database
from shared.runtime.service import Context


def dispatcher(database: Database, url: str, authority: Authority, seed: int) -> Parts:
    settings = Settings(database_url=url)
    return build_parts(Context(database, NullCache(), authority, random.Random(seed), settings, CollectorRegistry()))
