#[topup::limited(limit = "api", per = "user")]
async fn unknown() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited("api")]
async fn unnamed() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = "api", limit = "user")]
async fn twice() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = "api", wait)]
async fn without_a_value() -> Result<(), topup::Denied> {
    Ok(())
}

fn main() {}
