"""GenEval: objects, counts, colours and positions, decided by an instance segmenter."""
