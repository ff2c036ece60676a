"""Skin tone of faces: finding them, the region of skin, its colour, and the tone of the Monk scale."""
