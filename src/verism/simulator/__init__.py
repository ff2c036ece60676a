"""Scene -> image and exact boxes: parametric models, environments, and a ray-cast renderer for the CPU."""
