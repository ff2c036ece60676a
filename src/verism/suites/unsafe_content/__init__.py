"""Unsafe images from prompts that invite them, such as I2P; prompts come from the user's file alone."""
