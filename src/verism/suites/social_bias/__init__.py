"""Social bias (DALL-Eval, section 5 of ICCV 2023): whom does a model show where the prompt does not say?"""
