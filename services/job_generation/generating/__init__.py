"""What a VO may replace: how chunks are cut, what is merged, what the jobs are. Pure.

==============  ===================================================================================
`plugin`        what is asked, and how it is answered for everybody else: greedily
`example_vo`    a VO that does otherwise
==============  ===================================================================================
"""
