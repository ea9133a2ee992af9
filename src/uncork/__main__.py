"""`python -m uncork`: the same as the command `uncork`."""

import sys

from uncork.cli import main

if __name__ == "__main__":
    sys.exit(main())
