"""What the console decides by itself, pure: what a filter says, what differs, what a picture shows.

=============  =====================================================================================================
`sessions`     who signed in, until when, and where somebody goes on afterwards
`filters`      what is written into the box of a list, and what is wrong with it
`reasons`      a stored decision by check, the nearest miss first, and the difference of two
`subjects`     what pages are about, and what an event may have changed
`series`       jobs by state over time, and the hours of a day
`sentences`    the state of a task in words
`numbers`      whole numbers as people write them
`needs`        what a task needs as it was stated, and as it is now
=============  =====================================================================================================
"""
