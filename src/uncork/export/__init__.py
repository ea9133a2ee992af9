"""Models in the formats of other systems."""
