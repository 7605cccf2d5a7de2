//! Right use compiles; wrong use is an error that says what to write, where it is to be written.

#[test]
fn right_use_compiles_and_wrong_use_says_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/right/*.rs");
    cases.compile_fail("tests/wrong/*.rs");
}
