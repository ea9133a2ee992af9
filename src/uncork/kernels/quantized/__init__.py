"""Products and convolutions of codes in integers, and the ways in and out of codes."""
