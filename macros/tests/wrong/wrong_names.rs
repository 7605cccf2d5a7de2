#[topup::limited(limit = "a b")]
async fn a_space() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = 7)]
async fn a_number() -> Result<(), topup::Denied> {
    Ok(())
}

fn main() {}
