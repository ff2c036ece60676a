"""The campaigns of ``benchmarks/faults.py``, one a module, and what they share.

A campaign is a function that lists its jobs; a job is a function that tries something several times, in a folder and
with a random generator of its own, and says of each trial what came of it.
"""
