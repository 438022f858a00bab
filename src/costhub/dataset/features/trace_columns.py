"""Provides the columns and vocabularies of the feature layout trace_tokens@1."""

from __future__ import annotations

KINDS = (
    "AddUnitLoop Annotate AnnotateBufferAccess Bind Blockize CacheIndex CacheInplace CacheRead CacheWrite "
    "ComputeAt ComputeInline DecomposePadding DecomposeReduction EnterPostproc Fuse FuseReductionEpilogue "
    "GetChildBlocks GetConsumers GetLoops GetOutputBlocks GetProducers GetSBlock LoopPartition Merge "
    "PadEinsum Parallel ReindexCacheRead ReindexCacheWrite ReIndex Reorder ReorderBlockIterVar "
    "ReverseComputeAt ReverseComputeInline RFactor RollingBuffer SampleCategorical SampleComputeLocation "
    "SamplePartitionedTile SamplePerfectTile SetScope Split StorageAlign Tensorize TransformBlockLayout "
    "TransformLayout Unannotate UnsafeHideBufferAccess UnsafeSetDType Unroll Vectorize WriteAt ReadAt"
).split()
"""The instructions of TVM 0.27; kind number 0 is any other, 1 the first of these."""

WORDS = (
    "None main root global shared shared.dyn local wmma.matrix_a wmma.matrix_b wmma.accumulator "
    "blockIdx.x blockIdx.y blockIdx.z threadIdx.x threadIdx.y threadIdx.z vthread.x vthread.y vthread.z "
    "meta_schedule.parallel meta_schedule.vectorize meta_schedule.unroll_explicit "
    "meta_schedule.unroll_implicit meta_schedule.cooperative_fetch meta_schedule.tiling_structure "
    "meta_schedule.random_compute_producer meta_schedule.thread_extent_low_inclusive "
    "meta_schedule.thread_extent_high_inclusive meta_schedule.auto_tensorize "
    "meta_schedule.auto_tensorize_init meta_schedule.layout_rewrite_preproc "
    "pragma_auto_unroll_max_step pragma_unroll_explicit software_pipeline_stage software_pipeline_order "
    "software_pipeline_async_stages schedule_rule SSRSRS SSSRRSRS SSSRRS"
).split()
"""Texts with numbers of their own, from 1; 0 is no text. Any other has one of the 32 numbers after these."""

OTHER_WORDS = 32
TEXT_NUMBERS = len(WORDS) + OTHER_WORDS
"""The largest number of a text."""
ARGUMENTS, ATTRIBUTES, FACTORS, TEXTS = 8, 8, 8, 2

COLUMN_NAMES: tuple[str, ...] = (
    "kind",
    "in_postproc",
    "n_arguments",
    "n_results",
    *(f"argument{i}.{part}" for i in range(ARGUMENTS) for part in ("back", "result", "value")),
    *(f"text{i}" for i in range(TEXTS)),
    *(f"attribute{i}" for i in range(ATTRIBUTES)),
    "has_decision",
    "choice",
    *(f"factor{i}" for i in range(FACTORS)),
)
"""The names of the columns.

`kind` and `text` are numbers of the vocabularies. `back` is how many instructions ago the argument was made
(0 for one that is no reference), `result` which of that instruction's results it is, from 0. `choice` is the
decision of SampleCategorical or SampleComputeLocation, as it is, within +-1024. `value` (of a number, or of a
reference to a sampled number), `attribute`, `factor` (of a tile) and the counts are log2(|x| + 1) with the
sign of x. What is more than the columns hold is left out.
"""

KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS, 1)}
KIND_NUMBERS["GetBlock"] = KIND_NUMBERS["GetSBlock"]  # as TVM called it until 0.23
WORD_NUMBERS = {word: number for number, word in enumerate(WORDS, 1)}
ARGUMENT0 = COLUMN_NAMES.index("argument0.back")
TEXT0 = COLUMN_NAMES.index("text0")
ATTRIBUTE0 = COLUMN_NAMES.index("attribute0")
DECISION = COLUMN_NAMES.index("has_decision")
FACTOR0 = COLUMN_NAMES.index("factor0")
