"""Provides register_errors: exceptions of our callbacks keep their class on the way through TVM's C++."""

from __future__ import annotations

from costhub import errors

KINDS = (
    KeyboardInterrupt,
    errors.DataError,
    errors.MeasureError,
    errors.ModelError,
    errors.ScoreError,
    errors.WorkloadError,
)


def register_errors() -> None:
    """Teaches TVM's foreign-function interface our errors, and ^C.

    TVM carries an exception through C++ as the name of its class and its message. A class that it does not
    know comes out as a RuntimeError: ^C during a search would look like a failure of the search.

    Safe to call again.
    """
    import tvm_ffi

    for kind in KINDS:
        tvm_ffi.register_error(kind)
