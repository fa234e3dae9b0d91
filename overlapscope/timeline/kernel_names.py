"""Names of kernels as people say them: the function alone, without its namespaces, template and parameters."""

from __future__ import annotations

import re

_NOISE = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(int\)|\(unsigned long\)")
_WRAPPERS = frozenset(("Kernel", "Kernel2", "device_kernel"))
"""Templates that wrap any kernel: what matters is the one that they wrap."""


def short_name(name: str) -> str:
    """The function of a kernel's name.

    >>> short_name("void at::native::(anonymous namespace)::softmax_warp_forward<float, 4>(float*, int)")
    'softmax_warp_forward'
    >>> short_name("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm>(cutlass_80_tensorop_s1688gemm::Params)")
    'cutlass_80_tensorop_s1688gemm'
    >>> short_name("ampere_sgemm_128x64_tn")
    'ampere_sgemm_128x64_tn'
    """
    clean = _NOISE.sub("", name)
    head, *rest = re.split(r"[<(]", clean, maxsplit=1)
    function = re.split(r"::|\s", head.strip())[-1]
    if function in _WRAPPERS and rest:
        return re.split(r"[<>(),]", rest[0], maxsplit=1)[0].split("::")[-1].strip() or function
    return function or name
