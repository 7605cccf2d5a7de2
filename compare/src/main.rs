//! Which limiter is exact, and what does each cost?

use std::process::ExitCode;

fn main() -> ExitCode {
    topup_compare::main()
}
