//! `CL.THROTTLE`: a limit whose terms come with each call.

use topup_wire::{
    connection::Connection,
    limit::{Key, Throttle},
    reply::Throttled,
    scripts,
};

use crate::{client::Client, error::Error};

// === impl Client ===

impl Client {
    /// Takes `quantity` of `key`, which holds `max_burst + 1` and gains `count` every `period` seconds. The reply is that
    /// of `CL.THROTTLE key max_burst count period quantity` of the module redis-cell.
    ///
    /// On a server with the module, the module's command decides, with the module's keys; in a namespace other than
    /// `topup`, with keys of that namespace. On any other server a script gives the same replies, with keys of its own.
    /// No limit has to be published, and no daemon is needed.
    ///
    /// # Errors
    /// A wrong key or number, or a transient error if Redis gives no answer in time. Nothing is ever retried: a call that
    /// failed may have been carried out.
    pub async fn throttle(
        &self,
        key: &str,
        max_burst: u64,
        count: u64,
        period: u64,
        quantity: u64,
    ) -> Result<Throttled, Error> {
        let key = Key::new(key)?.as_str();
        let throttle = Throttle::new(max_burst, count, period, quantity)?;
        let connection = &mut self.shared().connection();
        self.handle().within_deadline(self.throttled(connection, key, throttle)).await
    }

    async fn throttled(
        &self,
        connection: &mut Connection,
        key: &str,
        throttle: Throttle,
    ) -> Result<Throttled, Error> {
        let module = &self.shared().module;
        if module.is_present(connection).await {
            match scripts::cell_throttle(connection, key, throttle).await {
                // Redis is another server by now, without the module.
                Err(error) if scripts::is_no_command(&error) => module.set_absent(),
                reply => return reply.map_err(Error::redis),
            }
        }
        self.shared().control.check_schema()?;
        scripts::throttle(connection, key, throttle).await.map_err(Error::redis)
    }
}
