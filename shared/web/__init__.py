"""What the HTTP sides share: limits of requests, JSON in slices, callers that are slow or leave.

A request is counted before it is parsed, and is parsed without holding the event loop for more than some milliseconds.
"""
