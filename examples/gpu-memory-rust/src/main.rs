//! Serves the scheduler plugin GpuMemory: `gpu-memory --listen 127.0.0.1:9000`.

use gpu_memory::GpuMemory;

fn main() -> std::process::ExitCode {
    trireme_sdk::main_with(GpuMemory::info(), GpuMemory::new)
}
