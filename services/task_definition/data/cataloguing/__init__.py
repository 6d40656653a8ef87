"""Workers carry out what is wanted of catalogues outside.

A VO's data may be in a catalogue of its own (`shared.catalogue.catalogues`). No transaction waits for it: `wishing`
wrote requests, `working` takes what is due and applies the result by compare-and-set, with back-off and a stated
reason where it did not work. `writing` registers outputs, `moving` makes rules of transfers and looks after them,
`hearing` takes messages; what reads input for a task is with tasks. A request that is carried out twice changes
nothing.
"""
