#[topup::limited(limit = "api", wait = "2s")]
#[topup::limited(limit = "user", key = name, wait = "3s")]
async fn waits(name: &str) -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = "api", on_outage = allow)]
#[topup::limited(limit = "user", key = name, on_outage = deny)]
async fn policies(name: &str) -> Result<(), topup::Denied> {
    Ok(())
}

fn main() {}
