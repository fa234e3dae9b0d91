"""The least bytes that PyTorch's elementwise kernels move, by their names and grids.

A trace does not record what a kernel reads. Elementwise kernels are an exception: each thread handles a fixed number of
elements, so that the grid tells how many there are, and the name tells their type. Only kernels that do almost no
arithmetic count here: they take as long as their bytes do. Source: ``aten/src/ATen/native/cuda/CUDALoops.cuh`` and
``Loops.cuh`` of PyTorch, where grids are made.
"""

from __future__ import annotations

import re

import numpy as np

from overlapscope.model.columns import NO_ID, Int64
from overlapscope.model.trace import Trace

_SIZES = {
    "float": 4,
    "double": 8,
    "long": 8,
    "int": 4,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "short": 2,
    "unsigned char": 1,
    "signed char": 1,
    "bool": 1,
}
_TYPE = "|".join(re.escape(name) for name in _SIZES)
_ELEMENT = re.compile(
    rf"(?:CUDAFunctor(?:OnSelf|OnOther)?_add|(?:A|B)UnaryFunctor|BinaryFunctor|AddFunctor|MulScalarFunctor)<({_TYPE})\b"
    rf"|copy_kernel_cuda\(.*?lambda\(({_TYPE})\)"
)
"""Adding, multiplying and copying, with the type of their elements."""
_PLAIN_ARITHMETIC = re.compile(r"(?:Add|Mul)Functor|_add<|MulScalarFunctor|copy_kernel_cuda")
_PER_THREAD = re.compile(r"(?<![a-z]_)elementwise_kernel(?:_manual_unroll)?<(?:\(int\))?\d+, (?:\(int\))?(\d+),")
_VECTORS = re.compile(r"vectorized_elementwise_kernel<(?:\(int\))?(\d+),")
_UNROLLED = "unrolled_elementwise_kernel<"
_USUAL, _WIDE = 4, 8
"""Elements of a thread in vectorized and unrolled kernels, and in vectorized ones of PyTorch 2.7 and later."""
_WIDE_SINCE = 12080
"""The CUDA runtime that no PyTorch before 2.7 was built with. By operators' shapes: 4 with 12.4, 8 with 13.0."""


def bytes_of_operand(trace: Trace) -> Int64:
    """For each kernel the bytes of one of its operands, `NO_ID` where name and grid do not tell them.

    The last block may be partly empty: of few blocks it is up to one block too many. Where the trace does not record
    the version of the CUDA runtime, it may be half.
    """
    kernels, runtime = trace.kernels, trace.metadata.versions.get("cuda_runtime_version", "")
    vectorized = _WIDE if runtime.isdecimal() and int(runtime) >= _WIDE_SINCE else _USUAL
    used, member = np.unique(kernels.name_id, return_inverse=True)
    each = np.array([bytes_of_thread(kernels.names[name], vectorized) for name in used.tolist()], np.int64)
    per_thread = each[member] if len(used) else np.empty(0, np.int64)
    known = (per_thread != NO_ID) & (kernels.blocks > 0) & (kernels.threads_per_block > 0)
    return np.where(known, per_thread * kernels.blocks * kernels.threads_per_block, NO_ID)


def bytes_of_thread(name: str, vectorized: int = _USUAL) -> int:
    """Bytes of one operand that a thread handles, of a vectorized kernel so many elements; `NO_ID` if not known.

    >>> bytes_of_thread("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, ...>")
    16
    >>> bytes_of_thread("void gemm<128, 4>")
    -1
    """
    element = _ELEMENT.search(name)
    if element is None or not _PLAIN_ARITHMETIC.search(name):
        return NO_ID
    size = _SIZES[element[1] or element[2]]
    if vectors := _VECTORS.search(name):
        return max(int(vectors[1]), vectorized) * size
    if per_thread := _PER_THREAD.search(name):
        return int(per_thread[1]) * size
    return _USUAL * size if _UNROLLED in name else NO_ID
