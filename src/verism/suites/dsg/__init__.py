"""DSG-1k: questions that depend on each other, as a graph (Davidsonian Scene Graph)."""
