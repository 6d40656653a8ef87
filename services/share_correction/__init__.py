"""Corrects shares by what their groups and users ran (DIRAC: Dynamic share corrections).

Consumes: jobs.started, outputs.produced, jobs.failed, jobs.expired (when cores are used); receives config.changed.
Emits: shares.corrected (news). Owns: `correction_factor` of shares, usage_buckets, usage_levels, user_corrections,
correction_terms.

Usage is folded from events into buckets of time (`policy.buckets`), and each slice of a corrector reads them
(`policy.slices`). Each VO may have correctors of its own (`policy.virtual_organisations`). The factor of a share
multiplies its target in the order of dispatch; the factors of users order the users within a share. Correctors are
plugins (`orrery.share_corrector`); the one of the documents is `policy/wms_history.py`, with the formulas of
`shared.order`. HTTP: `/api/v1/share/*`.
"""
