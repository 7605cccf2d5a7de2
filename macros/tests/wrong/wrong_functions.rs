#[topup::limited(limit = "api")]
fn not_async() -> Result<(), topup::Denied> {
    Ok(())
}

#[topup::limited(limit = "api")]
async fn no_result() {}

#[topup::limited(limit = "api")]
struct NotAFunction;

trait Service {
    #[topup::limited(limit = "api")]
    async fn no_body() -> Result<(), topup::Denied>;
}

fn main() {}
