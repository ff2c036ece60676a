"""Scorers of images that were trained on people's choices between images: PickScore and its kind."""
