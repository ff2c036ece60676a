"""Preference models as a suite: which of two sets of images they expect people to like more, prompt by prompt."""
