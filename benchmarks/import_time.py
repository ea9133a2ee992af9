"""How long `import uncork` takes beyond NumPy's own import: `python benchmarks/import_time.py
[--runs N]`.

Each run is a fresh process that imports NumPy first and then uncork; the minimum and the median are
printed.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

_PROGRAM = (
    "import time, numpy; start = time.perf_counter(); import uncork; "
    "print(time.perf_counter() - start)"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    seconds = [
        float(
            subprocess.run(
                [sys.executable, "-c", _PROGRAM], check=True, capture_output=True, text=True
            ).stdout
        )
        for _ in range(runs)
    ]
    print(
        f"import uncork, beyond NumPy: minimum {min(seconds) * 1e3:.0f} ms, median "
        f"{statistics.median(seconds) * 1e3:.0f} ms ({runs} runs)"
    )


if __name__ == "__main__":
    main()
