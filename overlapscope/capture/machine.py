"""The machine of a recording: versions, GPUs, links. No host name, no user, no path."""

from __future__ import annotations

import ctypes
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from overlapscope.calibration.schema import Gpu, PcieLink
from overlapscope.errors import CaptureError

_ASYNC_ENGINE_COUNT = 40  # CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT of the CUDA driver API
_PACKAGES = ("overlapscope", "torch", "nvtx", "transformers", "tensordict")


def require_torch() -> None:
    """Raise `CaptureError` where torch is not installed."""
    if find_spec("torch") is None:
        raise CaptureError("this needs torch: pip install torch nvidia-ml-py")


def require_cuda() -> None:
    """Raise `CaptureError` where torch is missing or sees no CUDA device."""
    require_torch()
    import torch

    if not torch.cuda.is_available():
        raise CaptureError(
            "no CUDA device here: a trace without one has no copies to look at; run on a GPU machine, "
            "or try the program without one: add `--device cpu`, in Python device='cpu'"
        )


def wait_for_devices() -> None:
    """Wait until every GPU that this process uses has done what it was given; raises what torch does on errors."""
    import torch

    torch.cuda.synchronize()
    if (count := torch.cuda.device_count()) > 1:
        for number in filter(in_use, range(count)):
            torch.cuda.synchronize(number)


def versions() -> dict[str, str]:
    """Versions of Python, of the packages that matter here, of CUDA and of its driver, as far as they are known."""
    known = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            known[package] = version(package)
    import torch

    if torch.version.cuda:
        known["cuda"] = torch.version.cuda
    with suppress(*_nvml_errors()), _Nvml() as nvml:
        known["driver"] = str(nvml.nvmlSystemGetDriverVersion())
    return known


def devices() -> tuple[Gpu, ...]:
    """Every GPU that torch sees, as far as the driver tells."""
    import torch

    return tuple(_device(number) for number in range(torch.cuda.device_count()))


def _device(number: int) -> Gpu:
    import torch

    properties = torch.cuda.get_device_properties(number)
    return Gpu(
        number,
        name=properties.name,
        memory_bytes=properties.total_memory,
        multiprocessors=properties.multi_processor_count,
        compute_capability=f"{properties.major}.{properties.minor}",
        copy_engines=_copy_engines(number),
        link=_link(str(properties.uuid)),
    )


def in_use(number: int) -> bool:
    """Whether this process has a context there: to wait for a GPU that has none would make one."""
    with suppress(OSError):
        driver, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        flags, active = ctypes.c_uint(), ctypes.c_int()
        answers = (
            driver.cuDeviceGet(ctypes.byref(handle), number),
            driver.cuDevicePrimaryCtxGetState(handle, ctypes.byref(flags), ctypes.byref(active)),
        )
        return not any(answers) and bool(active.value)
    return False


def _copy_engines(number: int) -> int | None:
    """``asyncEngineCount``, which torch does not pass on."""
    with suppress(OSError):
        driver, count, handle = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
        answers = (
            driver.cuDeviceGet(ctypes.byref(handle), number),
            driver.cuDeviceGetAttribute(ctypes.byref(count), _ASYNC_ENGINE_COUNT, handle),
        )
        return count.value if not any(answers) else None
    return None


def _link(uuid: str) -> PcieLink:
    """A GPU's link as NVML describes it; a link of which nothing is known where there is no NVML."""
    with suppress(*_nvml_errors()), _Nvml() as nvml:
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        return PcieLink(
            pcie_generation=nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle),
            pcie_width=nvml.nvmlDeviceGetCurrPcieLinkWidth(handle),
            pcie_max_generation=nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle),
            pcie_max_width=nvml.nvmlDeviceGetMaxPcieLinkWidth(handle),
        )
    return PcieLink()


class _Nvml:
    """NVIDIA's management library, for as long as it is asked."""

    def __enter__(self) -> Any:
        import pynvml

        pynvml.nvmlInit()
        return pynvml

    def __exit__(self, *failure: object) -> None:
        import pynvml

        pynvml.nvmlShutdown()


def _nvml_errors() -> tuple[type[Exception], ...]:
    """The errors that asking NVML can raise, also where its package or its library is missing."""
    try:
        import pynvml
    except ImportError:
        return (ImportError,)
    return (ImportError, pynvml.NVMLError)
