#[topup::limited]
async fn without_parentheses() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(key = name)]
async fn without_a_limit(name: &str) -> Result<(), topup::Denied> {
    Ok(())
}

fn main() {}
