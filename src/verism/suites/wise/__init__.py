"""WISE: prompts that take knowledge of the world for granted, in two editions that must not be mixed."""
