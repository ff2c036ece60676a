"""GenEval 2: prompts of three to ten atoms, asked question by question (Soft-TIFA)."""
