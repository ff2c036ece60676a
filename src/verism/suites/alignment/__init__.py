"""Do pictures show what their prompts say? Caption metrics, CLIPScore, R-precision, and questions about pictures."""
