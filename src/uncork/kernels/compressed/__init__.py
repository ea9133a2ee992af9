"""Products with weights that are stored in few bits."""
