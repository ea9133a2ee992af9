"""From a checked model to something that is called: choosing how each step runs, and running it."""
