"""The bench: judges held against images of known truth, side by side (``verism judge bench``)."""
