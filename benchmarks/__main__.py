"""The command line: `python -m benchmarks
COMMAND .. [options]`, with the commands below.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from pathlib import Path

COMMANDS = {
    "ops": "each operation alone, in many sizes",
    "models": "whole models",
    "zoo": "well-known networks with recorded inputs (--models)",
    "weights": "products with weights stored in few bits, with errors",
    "decode": "a token and a prompt of a language model of such weights",
    "embed": "batches of texts through encoders in the sizes of embedding models",
    "precision": "networks in f32 and bf16, with errors (--models)",
    "amx": "chains of layers in bf16 and on codes by AMX tiles and without them; not among all",
    "peak": "the most memory that a process needs which loads and calls a network (--models)",
    "gain": "what --threads gain over one thread, for networks of --models (with --pin 0,1)",
    "kernels": "single layers of networks",
    "files": "models from compiled files: sizes, times of calls (--models)",
    "startup": "from the start of a process to its first result",
    "cold": "networks whose kernels are all compiled (--models): to the first result",
    "memory": "a model with a table of 4 GB: time to load it, memory it takes, processes that "
    "share it",
    "growth": "how cost grows with the work, and with the number of layers",
    "limits": "what this machine can do at most",
    "shares": "which share of that single layers reach, as AVX2 alone, too",
    "scoring": "rows per second over whole tables, memory of workers that share a table",
    "traffic": "calls of ever new sizes: time of each, memory, kernels and plans",
    "streams": "one frame of a stream, and sessions side by side, against OpenVINO on the same IR",
    "shrink": "look-ups in tables of 8-bit and 4-bit rows and of f16, against f32",
}
#: Commands that measure processes of their own, which --target does not reach.
PROCESSES = frozenset({"cold", "memory", "peak", "scoring", "startup", "traffic"})
#: Libraries read these once, as they are imported.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
ROOT = Path(__file__).resolve().parent


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures uncork against other systems: interleaved, in one process, on the "
        "same arrays, after results agreed.",
        epilog="\n".join(f"{name:8} {text}" for name, text in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "commands",
        nargs="+",
        choices=[*COMMANDS, "all"],
        metavar="command",
        help=f"{', '.join(COMMANDS)}, or all",
    )
    result.add_argument(
        "--peers",
        default="openvino,torch,fbgemm,onnxruntime,numpy",
        help="comma-separated; one that is not installed is skipped",
    )
    result.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    result.add_argument(
        "--quick",
        action="store_true",
        help="few cases, short: to see that everything works and agrees",
    )
    result.add_argument("--seconds", type=float, help="of timing per case (2; quick 0.2)")
    result.add_argument(
        "--calls", type=int, help="of each kind of traffic at most (10,000 of the cheap ones)"
    )
    result.add_argument("--threads", type=int, default=1)
    result.add_argument(
        "--simulate",
        type=int,
        default=0,
        metavar="N",
        help="gain: what 2, 4, 8 .. N threads would gain, from the times of their parts",
    )
    result.add_argument(
        "--from",
        dest="source",
        default="ir",
        choices=["ir", "onnx"],
        help="zoo: what is opened, model.xml or model.onnx, which is exported where there is none",
    )
    result.add_argument(
        "--target",
        metavar="NAME",
        help="run kernels as on such a processor, of which this one has everything: x86-64-v3",
    )
    result.add_argument("--pin", metavar="CPU", help="run on this CPU only, or on these: 0,1")
    result.add_argument("--out", type=Path, default=ROOT / "results", metavar="DIR")
    result.add_argument(
        "--models",
        type=Path,
        default=ROOT.parent.parent / "shared" / "models",
        metavar="DIR",
        help="models with recorded inputs",
    )
    return result


def main(arguments: list[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    for name in THREAD_VARIABLES:
        os.environ[name] = str(given.threads)
    if given.pin:
        os.sched_setaffinity(0, {int(cpu) for cpu in given.pin.split(",")})
    left_out = {"amx"} if given.threads > 1 else {"amx", "gain"}
    every = [name for name in COMMANDS if name not in left_out]
    commands = every if "all" in given.commands else list(dict.fromkeys(given.commands))
    # Only now, for NumPy reads the variables above.
    if given.target:
        from benchmarks.targets import run_as

        own = [name for name in commands if name in PROCESSES]
        refused = f"--target does not reach the processes of {', '.join(own)}" if own else ""
        if refused := refused or run_as(given.target):
            print(refused, file=sys.stderr)
            return 2
    from benchmarks.options import Options, Peers

    options = Options(
        peers=Peers(tuple(given.peers.split(",")), given.threads),
        out=given.out,
        models=given.models,
        only=re.compile(given.only, re.IGNORECASE),
        quick=given.quick,
        threads=given.threads,
        calls=given.calls,
        simulate=given.simulate,
        source=given.source,
        target=given.target or "",
        seconds=given.seconds or (0.2 if given.quick else 2.0),
    )
    status = 0
    for command in commands:
        status = max(status, importlib.import_module(f"benchmarks.{command}").main(options))
    return status


if __name__ == "__main__":
    sys.exit(main())
