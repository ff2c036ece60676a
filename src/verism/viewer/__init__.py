"""Runs in the browser, read-only: a list with progress, scores, all images, and two runs side by side."""
