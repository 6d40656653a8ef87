"""The console: pages for people over the HTTP API, asked with the token of the one who signed in.

Consumes, emits and owns nothing: it has no statements and keeps no state, and runs without database and bus, so that it
says what is the matter while these are away. While the bus is there it hears what changes, and open pages get hints to
ask again. What a browser has to bring back is sealed (`sealing`), so that each copy can serve it. Whatever a page shows
can be had as JSON at the same address, and each page names the verb of the command line that prints the same.

=============  =====================================================================================================
`asking`       asks the HTTP API; refusals and services that are away become exceptions
`signing`      signing in and out, sessions, links of the command line, tokens of forms
`identifying`  signing in at an OpenID Connect issuer
`renewing`     renews sessions with what the issuer gave for that
`ending`       sessions that were ended and links that were used, at whichever copy
`sealing`      encrypts what a browser keeps
`hinting`      tells open pages, once a second for each subject, that what they show may have changed
`sharing`      gives pages of one person that ask the same at once one answer
`showing`      pages as HTML or JSON, texts, sizes, times, pictures
=============  =====================================================================================================

`api/` has a module for each subject; `policy/` what is decided here. `templates/` and `static/` are all that a browser
gets, besides htmx, which comes with a pinned wheel: nothing is built, and nothing is loaded from elsewhere.
"""
