"""The numbers behind `lecture_code.hardware`, each under the document that states it.

Rates are dense: where a vendor prints a figure "with sparsity", half of it stands here. Capacities
of caches, shared memory and registers count KiB and MiB, as the whitepapers do; device memory and
rates count powers of ten, as the datasheets do. A number that no document gives is left out.
"""

TERA, GIGA = 10**12, 10**9
KIB, MIB, GIB = 2**10, 2**20, 2**30

K20 = {
    "year": 2012,
    "source": "NVIDIA Tesla K20 board specification BD-06455-001",
    "compute_capability": "3.5",
    # NVIDIA Tesla Kepler family datasheet (2012): 3.52 TFLOP/s single precision
    "float32_vector_flop_per_s": 3.52 * TERA,
    # K20 board specification BD-06455-001: 5 GB GDDR5 at 208 GB/s
    "memory_kind": "GDDR5",
    "memory_bytes": 5 * GIGA,
    "memory_bytes_per_s": 208 * GIGA,
    # NVIDIA Kepler GK110 whitepaper: 13 SMX on the K20, 64 KB shared and L1, 48 KB of it shared
    "sm_count": 13,
    "l1_bytes_per_sm": 64 * KIB,
    "shared_bytes_per_sm": 48 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # PCI Express 2.0, 16 lanes: 8 GB/s each way
    "pcie_generation": 2,
    "pcie_bytes_per_s": 16 * GIGA,
}

P100 = {
    "year": 2016,
    "source": "NVIDIA Tesla P100 whitepaper WP-08019-001",
    "compute_capability": "6.0",
    # P100 whitepaper, table 1 and p. 10: NVLink board
    "float16_vector_flop_per_s": 21.2 * TERA,
    "float32_vector_flop_per_s": 10.6 * TERA,
    # P100 datasheet (2016): 16 GB HBM2 at 732 GB/s
    "memory_kind": "HBM2",
    "memory_bytes": 16 * GIGA,
    "memory_bytes_per_s": 732 * GIGA,
    # P100 whitepaper, table 1
    "l2_bytes": 4 * MIB,
    "sm_count": 56,
    "shared_bytes_per_sm": 64 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # P100 datasheet: PCIe 3.0 x16; NVLink 1, 4 links, 160 GB/s
    "pcie_generation": 3,
    "pcie_bytes_per_s": 32 * GIGA,
    "link_name": "NVLink 1",
    "link_bytes_per_s": 160 * GIGA,
}

V100 = {
    "year": 2017,
    "source": "NVIDIA V100 datasheet (SXM2) and whitepaper WP-08608-001",
    "compute_capability": "7.0",
    # V100 datasheet: 125 TFLOP/s tensor, 15.7 single precision
    "float16_matrix_flop_per_s": 125 * TERA,
    "float32_vector_flop_per_s": 15.7 * TERA,
    # A100 whitepaper, table 1: V100's peak FP16 without tensor cores
    "float16_vector_flop_per_s": 31.4 * TERA,
    # V100 datasheet: 16 GB HBM2 at 900 GB/s
    "memory_kind": "HBM2",
    "memory_bytes": 16 * GIGA,
    "memory_bytes_per_s": 900 * GIGA,
    # V100 whitepaper, table 1: 6,144 KB of L2, 128 KB of L1 and shared memory, 96 KB of it shared
    "l2_bytes": 6 * MIB,
    "sm_count": 80,
    "l1_bytes_per_sm": 128 * KIB,
    "shared_bytes_per_sm": 96 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # V100 datasheet: PCIe 32 GB/s, NVLink 300 GB/s
    "pcie_generation": 3,
    "pcie_bytes_per_s": 32 * GIGA,
    "link_name": "NVLink 2",
    "link_bytes_per_s": 300 * GIGA,
}

T4 = {
    "year": 2018,
    "source": "NVIDIA T4 product brief PB-09256-001",
    "compute_capability": "7.5",
    # T4 datasheet (2019): 65 TFLOP/s FP16 tensor, 8.1 single precision; no bfloat16
    "float16_matrix_flop_per_s": 65 * TERA,
    "float32_vector_flop_per_s": 8.1 * TERA,
    # Turing whitepaper WP-09183-001, table 5: T4's FP16 without tensor cores is twice its FP32
    "float16_vector_flop_per_s": 16.2 * TERA,
    # T4 product brief: 16 GB GDDR6, 256 bits at 10 Gb/s (a later datasheet says 300 GB/s)
    "memory_kind": "GDDR6",
    "memory_bytes": 16 * GIGA,
    "memory_bytes_per_s": 320 * GIGA,
    # Turing whitepaper: 4,096 KB of L2, 96 KB of L1 and shared memory, 64 KB of it shared
    "l2_bytes": 4 * MIB,
    "sm_count": 40,
    "l1_bytes_per_sm": 96 * KIB,
    "shared_bytes_per_sm": 64 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # T4 datasheet: PCIe 3.0 x16
    "pcie_generation": 3,
    "pcie_bytes_per_s": 32 * GIGA,
}

A100_40GB = {
    "year": 2020,
    "source": "NVIDIA A100 whitepaper v1.0 (2020), SXM4 40 GB",
    "compute_capability": "8.0",
    # A100 whitepaper, table 1: dense tensor rates, then rates without tensor cores
    "float16_matrix_flop_per_s": 312 * TERA,
    "bfloat16_matrix_flop_per_s": 312 * TERA,
    "tf32_matrix_flop_per_s": 156 * TERA,
    "float16_vector_flop_per_s": 78 * TERA,
    "float32_vector_flop_per_s": 19.5 * TERA,
    # A100 whitepaper, table 4: 40 GB HBM2 at 1,555 GB/s
    "memory_kind": "HBM2",
    "memory_bytes": 40 * GIGA,
    "memory_bytes_per_s": 1555 * GIGA,
    # A100 whitepaper, table 4: 40,960 KB of L2, 192 KB of L1 and shared memory, 164 KB of it shared
    "l2_bytes": 40 * MIB,
    "sm_count": 108,
    "l1_bytes_per_sm": 192 * KIB,
    "shared_bytes_per_sm": 164 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # FlashAttention paper (arXiv 2205.14135), section 2.1: about 19 TB/s over all SMs
    "shared_bytes_per_s": 19 * TERA,
    # A100 datasheet: PCIe Gen4 64 GB/s, NVLink 600 GB/s
    "pcie_generation": 4,
    "pcie_bytes_per_s": 64 * GIGA,
    "link_name": "NVLink 3",
    "link_bytes_per_s": 600 * GIGA,
}

A100_80GB = A100_40GB | {
    "source": "NVIDIA A100 datasheet (2021), SXM4 80 GB",
    # A100 80 GB datasheet: 80 GB HBM2e at 2,039 GB/s; the chip is that of the 40 GB board
    "memory_kind": "HBM2e",
    "memory_bytes": 80 * GIGA,
    "memory_bytes_per_s": 2039 * GIGA,
}

H100_SXM = {
    "year": 2022,
    "source": "NVIDIA H100 datasheet and whitepaper v1.04, SXM5",
    "compute_capability": "9.0",
    # H100 datasheet: 1,979 TFLOP/s FP16, 989 TF32 and 3,958 FP8 with sparsity; half of each
    "float16_matrix_flop_per_s": 989 * TERA,
    "bfloat16_matrix_flop_per_s": 989 * TERA,
    "tf32_matrix_flop_per_s": 494.5 * TERA,
    "float8_matrix_flop_per_s": 1979 * TERA,
    # H100 whitepaper v1.04, table 2: rates without tensor cores
    "float16_vector_flop_per_s": 133.8 * TERA,
    "float32_vector_flop_per_s": 66.9 * TERA,
    # FlashAttention-3 paper (arXiv 2407.08608), section 3.1: 3.9 TFLOP/s of special functions
    "special_flop_per_s": 3.9 * TERA,
    # H100 datasheet: 80 GB at 3.35 TB/s
    "memory_kind": "HBM3",
    "memory_bytes": 80 * GIGA,
    "memory_bytes_per_s": 3350 * GIGA,
    # H100 whitepaper, table 3: 50 MB of L2, 256 KB of L1 and shared memory, 228 KB of it shared
    "l2_bytes": 50 * MIB,
    "sm_count": 132,
    "l1_bytes_per_sm": 256 * KIB,
    "shared_bytes_per_sm": 228 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # FlashAttention-3 paper, table 1 (the authors' estimates): L2 12 TB/s, shared memory 31 TB/s
    "l2_bytes_per_s": 12 * TERA,
    "shared_bytes_per_s": 31 * TERA,
    # H100 datasheet: PCIe Gen5 128 GB/s, NVLink 900 GB/s
    "pcie_generation": 5,
    "pcie_bytes_per_s": 128 * GIGA,
    "link_name": "NVLink 4",
    "link_bytes_per_s": 900 * GIGA,
}

H100_PCIE = {
    "year": 2022,
    "source": "NVIDIA H100 datasheet and whitepaper v1.04, PCIe",
    "compute_capability": "9.0",
    # H100 datasheet: 1,513 TFLOP/s FP16, 756 TF32 and 3,026 FP8 with sparsity; half of each
    "float16_matrix_flop_per_s": 756.5 * TERA,
    "bfloat16_matrix_flop_per_s": 756.5 * TERA,
    "tf32_matrix_flop_per_s": 378 * TERA,
    "float8_matrix_flop_per_s": 1513 * TERA,
    # H100 datasheet: 51 TFLOP/s FP32 without tensor cores
    "float32_vector_flop_per_s": 51 * TERA,
    # H100 datasheet: 80 GB at 2 TB/s
    "memory_kind": "HBM2e",
    "memory_bytes": 80 * GIGA,
    "memory_bytes_per_s": 2000 * GIGA,
    # H100 whitepaper, table 3
    "l2_bytes": 50 * MIB,
    "sm_count": 114,
    "l1_bytes_per_sm": 256 * KIB,
    "shared_bytes_per_sm": 228 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # H100 datasheet: PCIe Gen5 128 GB/s, NVLink bridge 600 GB/s
    "pcie_generation": 5,
    "pcie_bytes_per_s": 128 * GIGA,
    "link_name": "NVLink 4 bridge",
    "link_bytes_per_s": 600 * GIGA,
}

# H200 datasheet (2023): the H100 SXM's rates and links
H200_SXM = H100_SXM | {
    "year": 2023,
    "source": "NVIDIA H200 datasheet, SXM",
    # H200 datasheet: 141 GB HBM3e at 4.8 TB/s
    "memory_kind": "HBM3e",
    "memory_bytes": 141 * GIGA,
    "memory_bytes_per_s": 4800 * GIGA,
    # what the driver reports on the H200 of this book's records (provenance: l2_bytes)
    "l2_bytes": 60 * MIB,
    # the FlashAttention-3 paper's estimates are for the H100
    "l2_bytes_per_s": None,
    "shared_bytes_per_s": None,
}

L4 = {
    "year": 2023,
    "source": "NVIDIA L4 datasheet (2023)",
    "compute_capability": "8.9",
    # L4 datasheet: 242 TFLOP/s FP16, 120 TF32 and 485 FP8 with sparsity; half of each; FP32 30.3
    "float16_matrix_flop_per_s": 121 * TERA,
    "bfloat16_matrix_flop_per_s": 121 * TERA,
    "tf32_matrix_flop_per_s": 60 * TERA,
    "float8_matrix_flop_per_s": 242.5 * TERA,
    "float32_vector_flop_per_s": 30.3 * TERA,
    # L4 datasheet: 24 GB at 300 GB/s
    "memory_kind": "GDDR6",
    "memory_bytes": 24 * GIGA,
    "memory_bytes_per_s": 300 * GIGA,
    # 30.3 TFLOP/s = 58 SMs x 128 lanes x 2 FLOP x 2.04 GHz
    "sm_count": 58,
    # CUDA C++ programming guide, compute capability 8.9
    "l1_bytes_per_sm": 128 * KIB,
    "shared_bytes_per_sm": 100 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # L4 datasheet: PCIe Gen4 x16 64 GB/s
    "pcie_generation": 4,
    "pcie_bytes_per_s": 64 * GIGA,
}

B200 = {
    "year": 2024,
    "source": "NVIDIA Blackwell architecture technical brief, HGX B200",
    "compute_capability": "10.0",
    # Blackwell technical brief, HGX B200: 4.5 PFLOP/s FP16, 2.2 TF32 and 9 FP8 with sparsity; half
    "float16_matrix_flop_per_s": 2250 * TERA,
    "bfloat16_matrix_flop_per_s": 2250 * TERA,
    "tf32_matrix_flop_per_s": 1100 * TERA,
    "float8_matrix_flop_per_s": 4500 * TERA,
    # Blackwell technical brief, HGX B200
    "float32_vector_flop_per_s": 80 * TERA,
    # DGX B200 datasheet: 1,440 GB and 64 TB/s over 8 GPUs
    "memory_kind": "HBM3e",
    "memory_bytes": 180 * GIGA,
    "memory_bytes_per_s": 8000 * GIGA,
    # what the driver reports (pytorch/ao pull request 4002): 148 SMs, 126.5 MB L2, 228 KB shared
    "l2_bytes": 126 * MIB,
    "sm_count": 148,
    "shared_bytes_per_sm": 228 * KIB,
    "register_bytes_per_sm": 256 * KIB,
    # Blackwell tuning guide: 256 KB of L1 and shared memory
    "l1_bytes_per_sm": 256 * KIB,
    # Blackwell technical brief: NVLink 1.8 TB/s; HGX B200 boards connect by PCIe Gen5
    "pcie_generation": 5,
    "pcie_bytes_per_s": 128 * GIGA,
    "link_name": "NVLink 5",
    "link_bytes_per_s": 1800 * GIGA,
}

TPU_V4 = {
    "year": 2021,
    "kind": "TPU",
    "source": "Google Cloud TPU v4 documentation",
    # Cloud TPU v4: 275 TFLOP/s bfloat16 a chip, 32 GiB HBM2 at 1,200 GB/s
    "bfloat16_matrix_flop_per_s": 275 * TERA,
    "memory_kind": "HBM2",
    "memory_bytes": 32 * GIB,
    "memory_bytes_per_s": 1200 * GIGA,
}

TPU_V5E = {
    "year": 2023,
    "kind": "TPU",
    "source": "Google Cloud TPU v5e documentation",
    # Cloud TPU v5e: 197 TFLOP/s bfloat16 a chip, 16 GB HBM2 at 819 GB/s
    "bfloat16_matrix_flop_per_s": 197 * TERA,
    "memory_kind": "HBM2",
    "memory_bytes": 16 * GIGA,
    "memory_bytes_per_s": 819 * GIGA,
    # Cloud TPU v5e: bidirectional inter-chip bandwidth a chip
    "link_name": "ICI",
    "link_bytes_per_s": 400 * GIGA,
}

TPU_V5P = {
    "year": 2023,
    "kind": "TPU",
    "source": "Google Cloud TPU v5p documentation",
    # Cloud TPU v5p: 459 TFLOP/s bfloat16 a chip, 95 GB HBM2e at 2,765 GB/s
    "bfloat16_matrix_flop_per_s": 459 * TERA,
    "memory_kind": "HBM2e",
    "memory_bytes": 95 * GIGA,
    "memory_bytes_per_s": 2765 * GIGA,
    # Cloud TPU v5p: bidirectional inter-chip bandwidth a chip
    "link_name": "ICI",
    "link_bytes_per_s": 1200 * GIGA,
}

TABLE = {
    "K20": K20,
    "P100": P100,
    "V100": V100,
    "T4": T4,
    "A100-40GB": A100_40GB,
    "A100-80GB": A100_80GB,
    "H100-SXM": H100_SXM,
    "H100-PCIe": H100_PCIE,
    "H200-SXM": H200_SXM,
    "L4": L4,
    "B200": B200,
    "TPUv4": TPU_V4,
    "TPUv5e": TPU_V5E,
    "TPUv5p": TPU_V5P,
}
