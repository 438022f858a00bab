"""Provides the feature layout per_store@1: TVM's per-store features of a program, and their extraction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from costhub.dataset.features.spec import Features, FeatureSpec, finite_or_none, replay_schedules
from costhub.dataset.programs import FloatArray
from costhub.dataset.workload import parse_target

PER_STORE = "per_store@1"
"""Name and version of the layout; TVM 0.27's PerStoreFeature(extract_workload=True), one row per buffer."""

_BUFFERS = 5
_CURVE_SAMPLES = 10
_ARITHMETIC = (
    "float_mad float_add_sub float_mul float_div_mod float_cmp float_math_func float_other_func "
    "int_mad int_add_sub int_mul int_div_mod int_cmp int_math_func int_other_func bool_op select_op"
).split()
_LOOP = (
    "num prod len pos_none pos_inner_spatial pos_middle_spatial pos_outer_spatial "
    "pos_inner_reduce pos_middle_reduce pos_outer_reduce pos_mixed"
).split()
_GPU = (
    "is_gpu blockIdx_x_len blockIdx_y_len blockIdx_z_len threadIdx_x_len threadIdx_y_len threadIdx_z_len vthread_len"
).split()
_BUFFER = (
    "acc_read acc_write acc_readwrite bytes unique_bytes lines unique_lines "
    "reuse_loop_multiple_read reuse_serial_multiple_rw reuse_none reuse_dis_iter reuse_dis_bytes reuse_ct "
    "bytes_d_reuse_ct unique_bytes_d_reuse_ct lines_d_reuse_ct unique_lines_d_reuse_ct stride"
).split()
_OUTER = ("alloc_size alloc_prod alloc_outer_prod alloc_inner_prod outer_prod num_loops auto_unroll_max_step").split()
_WORKLOAD = "softmax maxmin add batch_matmul matmul depthwiseconv2d conv2d_winograd conv2d".split()

COLUMN_NAMES: tuple[str, ...] = (
    *_ARITHMETIC,
    *(f"{kind}_{name}" for kind in ("vectorize", "unroll", "parallel") for name in _LOOP),
    *_GPU,
    *(f"B{buffer}.{name}" for buffer in range(_BUFFERS) for name in _BUFFER),
    *(f"arith_intensity_{sample}" for sample in range(_CURVE_SAMPLES)),
    *_OUTER,
    *(f"wl_{name}" for name in _WORKLOAD),
)
"""The names of the columns of a feature row. Counts and sizes are log2(|x| + 1); flags are 0 or 1."""

WIDTH = len(COLUMN_NAMES)


def extract(mod: Any, traces: Sequence[str], target: str, *, threads: int = 1) -> Features:
    """Computes the features of programs of one workload, by replaying their traces.

    A malformed trace can crash TVM: for untrusted data use `costhub.dataset.features.compute`, which
    calls this in a child process.

    Args:
        mod: The workload (``tvm.IRModule``).
        traces: One schedule trace as JSON per program.
        target: The TVM target as JSON.
        threads: Threads that TVM may use.

    Returns:
        One (rows, 172) array per program; None where the trace does not replay or a feature is not finite.

    Raises:
        WorkloadError: TVM does not accept the target.
    """
    from tvm.s_tir import meta_schedule as ms

    # First: a context imports the intrinsics of every target unless those of this one are loaded.
    schedules = replay_schedules(mod, traces, target)
    context = ms.TuneContext(mod, target=parse_target(target), num_threads=threads)
    good = [schedule for schedule in schedules if schedule is not None]
    arguments = ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=False) if good else []
    features = iter(extract_candidates(context, [ms.MeasureCandidate(schedule, arguments) for schedule in good]))
    return [None if schedule is None else next(features) for schedule in schedules]


def extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
    """Computes the features of the scheduled candidates of a search.

    Args:
        context: The ``TuneContext`` of their workload and target.
        candidates: One ``MeasureCandidate`` per program.

    Returns:
        One (rows, 172) array per candidate; None where TVM cannot lower it or a feature is not finite.
    """
    from tvm.s_tir import meta_schedule as ms

    extractor = ms.feature_extractor.PerStoreFeature(extract_workload=True)
    try:
        features = [tensor.numpy() for tensor in extractor.extract_from(context, candidates)]
    except Exception:
        # One bad program fails the whole call; one by one, the others pass.
        if len(candidates) <= 1:
            return [None] * len(candidates)
        return [extract_candidates(context, [candidate])[0] for candidate in candidates]
    return [_narrowed(rows) for rows in features]


def _narrowed(rows: Any) -> FloatArray | None:
    return finite_or_none(np.asarray(rows, dtype=np.float32).reshape(-1, WIDTH))


SPEC = FeatureSpec(PER_STORE, COLUMN_NAMES, extract, extract_candidates, of_module=True)
