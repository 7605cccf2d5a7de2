//! Wrong use is an error at its place that says what to write.

#[test]
fn wrong_use_says_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/wrong/*.rs");
}
