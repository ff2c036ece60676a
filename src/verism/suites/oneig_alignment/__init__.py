"""The alignment part of OneIG-Benchmark: questions about anime, portraits and objects."""
