//! Serves the scheduler plugin DeadlineOrder: `deadline-order --listen 127.0.0.1:9000`.

use deadline_order::DeadlineOrder;

fn main() -> std::process::ExitCode {
    trireme_sdk::main_with(DeadlineOrder::info(), DeadlineOrder::new)
}
