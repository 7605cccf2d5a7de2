//! x
/// x
pub fn page(_: &crate::comparison::Comparison) -> String {
    String::new()
}
