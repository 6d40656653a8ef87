"""The console in Chromium, driven by Playwright, over a running system: what people do, and what they see.

=============  =====================================================================================================
`chromium`     the browser of Debian's packages, and what went wrong in it
`people`       signing in as somebody, by a link or at the issuer
`stage`        the system, its tasks and a pilot: once for all stories
=============  =====================================================================================================
"""
