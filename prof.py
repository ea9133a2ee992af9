import cProfile
import os
import pstats
import sys
import tempfile

home = tempfile.mkdtemp(dir="/tmp/coldlab")
os.environ["HOME"] = home
import time

import numpy as np

import uncork

d = sys.argv[1]
z = np.load(d + "/inputs.npz")
ins = [z[k] for k in sorted((k for k in z.files if k.startswith("run0/")), key=lambda k: int(k.split("/")[1]))]
m = uncork.load(d + "/model.xml", threads=1)
p = cProfile.Profile(time.thread_time)
p.enable()
m(ins)
p.disable()
pstats.Stats(p).sort_stats("cumtime").print_stats(70)
import shutil

shutil.rmtree(home)
