"""Corrects shares by what their groups and users ran (DIRAC: Dynamic share corrections).

Consumes: nothing by queue; receives config.changed. Emits: shares.corrected (news). Owns: `correction_factor` of
shares, usage_history, user_corrections. Correctors are plugins (`orrery.share_corrector`); the one of the documents is
`policy/wms_history.py`, with the formulas of `shared.order`. HTTP: `/api/v1/share/list` and `/api/v1/share/load`.
"""
