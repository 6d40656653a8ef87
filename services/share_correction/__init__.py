"""Corrects shares by what their groups and users ran (DIRAC: Dynamic share corrections).

Consumes: jobs.started, outputs.produced, jobs.failed, jobs.expired (when cores are used); receives config.changed.
Emits: shares.corrected (news). Owns: `correction_factor` of shares, usage_buckets, usage_levels, user_corrections,
group_corrections, correction_terms.

Usage is folded from events into buckets of time (`policy.buckets`), and each slice of a corrector reads them
(`policy.slices`). Each VO may have correctors of its own (`policy.virtual_organisations`). The factor of a share
multiplies its target in the order of dispatch. Where a VO uses task queues, its groups of users are corrected against
each other, too, and users within a share or group: their factors multiply the priorities of their task queues, which
dispatch draws by. Without task queues a share for whose users a corrector is configured (Group) is divided among those
who have jobs, each one's part multiplied by the factor; in other shares users are not ordered. Correctors are plugins
(`orrery.share_corrector`); the one of the documents is `policy/wms_history.py`, with the formulas of `shared.order`.
HTTP: `/api/v1/share/*`.

============  =====================================================================================================
`collecting`  what shares, groups and users use, from events about jobs
`explaining`  shares for people: target, use, place in the order, and what corrections follow from
============  =====================================================================================================
"""
