"""The accelerators that one can buy or rent, by their vendors' data sheets; rates are those without sparsity.

| accelerator | source |
|---|---|
| volta | in-network paper (120 TFLOP/s); NVIDIA "Tesla V100" data sheet, SXM2 with 32 GB, as in a DGX-2 |
| a100 | NVIDIA "A100 Tensor Core GPU" data sheet, SXM with 80 GB |
| h100, h200 | NVIDIA "H100 Tensor Core GPU" and "H200 Tensor Core GPU" data sheets, SXM |
| b200 | NVIDIA "HGX B200" data sheet, an eighth of the board; 148 multiprocessors as its driver reports |
| mi300x | AMD "Instinct MI300X accelerator" data sheet |
| tpu-v5p | Google Cloud documentation, "TPU v5p": a chip |

A GB of memory is 10^9 bytes here, although the memories have a few percent more: drivers and libraries need some.
"""

from dataclasses import replace

from treefold.training.gpu import Gpu

_VOLTA = Gpu(
    name="volta",
    peak_flops=120e12,
    other_peaks={"fp32": 15.7e12},
    memory_Bps=900e9,
    memory_bytes=32 * 10**9,
    multiprocessors=80,
)
_H100 = Gpu(
    name="h100",
    peak_flops=989e12,
    other_peaks={"fp32": 67e12, "tf32": 494e12, "fp8": 1979e12},
    memory_Bps=3350e9,
    memory_bytes=80 * 10**9,
    multiprocessors=132,
)

GPUS = {
    gpu.name: gpu
    for gpu in (
        _VOLTA,
        replace(_VOLTA, name="volta-2:1", peak_flops=2 * _VOLTA.peak_flops),
        replace(_VOLTA, name="volta-4:1", peak_flops=4 * _VOLTA.peak_flops),
        Gpu(
            name="a100",
            peak_flops=312e12,
            other_peaks={"fp32": 19.5e12, "tf32": 156e12},
            memory_Bps=2039e9,
            memory_bytes=80 * 10**9,
            multiprocessors=108,
        ),
        _H100,
        replace(_H100, name="h200", memory_Bps=4800e9, memory_bytes=141 * 10**9),
        Gpu(
            name="b200",
            peak_flops=2250e12,
            other_peaks={"fp32": 75e12, "tf32": 1125e12, "fp8": 4500e12},
            memory_Bps=8000e9,
            memory_bytes=180 * 10**9,
            multiprocessors=148,
        ),
        Gpu(
            name="mi300x",
            peak_flops=1307.4e12,
            other_peaks={"fp32": 163.4e12, "tf32": 653.7e12, "fp8": 2614.9e12},
            memory_Bps=5300e9,
            memory_bytes=192 * 10**9,
            multiprocessors=304,
        ),
        # A chip has two cores with four units of 128 x 128 each. It runs a compiled program, which launches nothing,
        # and its links are served by DMA engines, which take nothing from the compute.
        Gpu(
            name="tpu-v5p",
            peak_flops=459e12,
            memory_Bps=2765e9,
            memory_bytes=95 * 10**9,
            multiprocessors=8,
            launch_s=0.0,
            compute_overhead=0.0,
        ),
    )
}
"""The GPUs and the TPU that treefold knows, by name."""
