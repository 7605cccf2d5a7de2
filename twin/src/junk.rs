//! Junk: values that no script writes.

/// Texts to put in the place of what scripts have written.
pub const JUNK: [&str; 17] = [
    "",
    "x",
    "inf",
    "-inf",
    "nan",
    "1.5",
    "-1",
    "0",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e300",
    "0x10",
    "99999999999999999999",
    "\u{0}\u{1}",
    "token-bucket",
    "gcra",
];
