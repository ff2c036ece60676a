"""GenAI-Bench and VQAScore: the probability of yes to one question about each prompt, held against people's ratings."""
