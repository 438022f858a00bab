"""costhub for scripts that call TVM's MetaSchedule themselves.

```python
import costhub.tvm

ms.tune_tir(mod, target, "tuned/", max_trials_global=64, **costhub.tvm.tune_kwargs("auto", target=target))
```
"""

from __future__ import annotations

from costhub.tvm.tune_kwargs import CostModel, tune_kwargs

__all__ = ["CostModel", "tune_kwargs"]
