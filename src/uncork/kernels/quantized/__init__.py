"""Products and convolutions of codes in integers, and what brings codes and numbers into each other."""
