"""T2I-CompBench and T2I-CompBench++: attribute binding, relations in the image and in depth, numbers, and more."""
