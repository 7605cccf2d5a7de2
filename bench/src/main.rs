//! The program behind `scripts/bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    topup_bench::main()
}
