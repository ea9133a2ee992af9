"""The command `uncork` from its first moment: Ctrl-C ends it in silence while it is still imported,
too.

It lies beside the package, whose own import is most of what there is to wait for.
"""

from __future__ import annotations


def main() -> int:
    """Run the process's command line and return the exit status: 130 after Ctrl-C, as of programs
    that the signal ended.
    """
    try:
        from uncork.cli import main

        return main()
    except KeyboardInterrupt:
        return 130
