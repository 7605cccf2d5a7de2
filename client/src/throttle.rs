//! `CL.THROTTLE`, without a limit in any config.

use topup_wire::{
    connection::Connection,
    limit::{Key, Throttle},
    reply::Throttled,
    scripts,
};

use crate::{client::Client, error::Error};

// === impl Client ===

impl Client {
    /// Asks for `quantity` of `key`, where at most `max_burst` + 1 may be had at once and `count` every `period` seconds:
    /// what the command `CL.THROTTLE key max_burst count period quantity` of the module redis-cell answers. On a server
    /// with the module it is that command, whose keys are the module's; elsewhere a script that answers the same, with
    /// keys of its own. No limit has to be published, and no daemon is needed.
    ///
    /// # Errors
    /// A wrong key or number; a transient error when Redis gives no answer in time. Nothing is ever retried: a call that
    /// failed may have counted.
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
        let (deadline, connection) = (self.shared().deadline, &mut self.shared().connection());
        let asked = tokio::time::timeout(deadline, self.throttled(connection, key, throttle)).await;
        asked.unwrap_or(Err(Error::DeadlineExceeded { deadline }))
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
                // Another server by now, without it.
                Err(error) if scripts::is_no_command(&error) => module.is_gone(),
                answered => return Ok(answered?),
            }
        }
        Ok(scripts::throttle(connection, key, throttle).await?)
    }
}
