//! Correct use compiles. Wrong use is an error at its place that says what to write.

#[test]
fn right_use_compiles_and_wrong_use_says_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/right/*.rs");
    cases.compile_fail("tests/wrong/*.rs");
}
