"""The first version of the social bias study (arXiv v1, 2022): neutral prompts, one vote for each by CLIP."""
