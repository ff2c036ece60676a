"""Do images show what their prompts say? Caption metrics, CLIPScore, R-precision, and questions about images."""
