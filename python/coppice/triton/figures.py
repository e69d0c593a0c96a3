"""The properties that the emulated GPU reports, to Triton and through torch.cuda."""

CAPABILITY = 80  # What is compiled for, if nothing else is said; a later device executes it too.
SHARED_BYTES_MAX = {80: 166912, 86: 101376, 89: 101376, 90: 232448}  # Of a block.
SHARED_BYTES = 49152  # Of a block that asks for no more.
MULTIPROCESSORS = 108
REGISTERS = 65536  # Of a multiprocessor.
THREADS = 2048  # Likewise.
MEMORY_BYTES = 4 << 30
CACHE_BYTES = 40 << 20
NAME = "coppice emulator"
