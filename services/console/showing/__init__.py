"""Makes what a browser gets: HTML of templates, or the same data as JSON.

=============  =====================================================================================================
`pages`        one page: its template, its data, and the verb of the command line that prints the same
`rendering`    templates, headers, and which form was asked for
`texts`        filters of templates: what others wrote, times, sizes, numbers
`drawing`      SVG: bars, stacked series, lines and the hours of a day
=============  =====================================================================================================
"""
