"""Properties of OpenVINO's own CPU plugin."""

from __future__ import annotations

from uncork.openvino.properties._property import Property

denormals_optimization = Property("CPU_DENORMALS_OPTIMIZATION")
sparse_weights_decompression_rate = Property("CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE")
tbb_partitioner = Property("TBB_PARTITIONER")
