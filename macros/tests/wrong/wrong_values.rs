#[topup::limited(limit = "api", wait = "soon")]
async fn no_duration() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = "api", wait = 2)]
async fn no_unit() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = "api", count = 0)]
async fn nothing() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = "api", count = "two")]
async fn a_text() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = "api", on_outage = retry)]
async fn neither() -> Result<(), topup::Denied> {
    Ok(())
}

fn main() {}
