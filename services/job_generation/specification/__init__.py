"""What the pilot is told of a job: names, requirements, command line and other fields.

================  ===================================================================================================
`kind_of_job`     what differs between kinds of jobs in all that
`job_source`      what the jobs of a task are made from
`building`        the jobs of one request, each with its fields; `input_fields`, `job_fields` parts of them
`command_format`  command lines whose plain placeholders are filled in at once; `job_texts` what the others stand for
`output_names`    names of outputs, and where they go
`requirements`    what a pilot must offer
`job_xml`         jobs that the user describes one by one; `segments` input that is read in named parts
================  ===================================================================================================
"""
