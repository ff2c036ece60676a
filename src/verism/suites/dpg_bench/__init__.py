"""DPG-Bench: dense prompts, asked question by question with a graph of dependencies."""
