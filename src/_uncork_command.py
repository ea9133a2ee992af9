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
    except Exception as error:
        if _interrupted(error):
            return 130
        raise


def _interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is behind an error: Python 3.10 and 3.11 make another of one that comes while
    a class is made.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__
    return cause is not None
