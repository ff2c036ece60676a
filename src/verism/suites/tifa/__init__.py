"""TIFA: questions with choices about captions."""
