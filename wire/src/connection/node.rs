//! One server, and the connection to it.

use std::sync::{PoisonError, RwLock};

use redis::{
    Client, Cmd, ConnectionInfo, Pipeline, RedisError, RedisResult, Value,
    aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig},
};

use super::{CONNECT_TIMEOUT, address::Address, redirect::error_in};

/// A server, with one pipelined connection that all callers share.
pub(crate) struct Node {
    info: ConnectionInfo,
    address: Option<Address>,
    current: RwLock<Current>,
}

/// The present connection.
#[derive(Clone)]
struct Current {
    /// Number of connections before this one.
    number: u64,
    connection: ConnectionManager,
}

/// Commands to send at once.
#[derive(Clone, Copy)]
pub(super) enum Commands<'a> {
    One(&'a Cmd),
    /// As [`ConnectionLike::req_packed_commands`] has it.
    Many(&'a Pipeline, usize, usize),
}

// === impl Node ===

impl Node {
    /// The server of `info`. The first command connects to it.
    pub(super) fn new(info: ConnectionInfo) -> RedisResult<Self> {
        let current = RwLock::new(Current { number: 0, connection: connect(&info)? });
        Ok(Self { address: Address::of(&info), info, current })
    }

    /// Settings of the connection.
    pub(crate) fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Address of the server; `None` on a unix socket.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    pub(super) fn db(&self) -> i64 {
        self.info.redis_settings().db()
    }

    /// Sends commands and returns the replies.
    pub(super) async fn ask(&self, commands: Commands<'_>) -> RedisResult<Vec<Value>> {
        let Current { number, mut connection } =
            self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = match commands {
            Commands::One(command) => connection.req_packed_command(command).await.map(|answer| vec![answer]),
            Commands::Many(commands, offset, count) => {
                connection.req_packed_commands(commands, offset, count).await
            }
        };
        if is_lost(&answer) {
            self.replace(number);
        }
        answer
    }

    /// The same with `ASKING` before each command, for a node that is about to get the keys.
    pub(super) async fn ask_with_asking(&self, commands: Commands<'_>) -> RedisResult<Vec<Value>> {
        let mut asking = Cmd::new();
        asking.arg("ASKING");
        let mut pipeline = Pipeline::new();
        let mut add = |command: &Cmd| {
            pipeline.add_command(asking.clone()).add_command(command.clone());
        };
        match commands {
            Commands::One(command) => add(command),
            Commands::Many(several, ..) => several.cmd_iter().for_each(add),
        }
        let all = self.ask(Commands::Many(&pipeline, 0, pipeline.len())).await?;
        Ok(all.into_iter().skip(1).step_by(2).collect())
    }

    /// Replaces connection `number`, unless it has been replaced already.
    fn replace(&self, number: u64) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if let (true, Ok(connection)) = (current.number == number, connect(&self.info)) {
            *current = Current { number: number + 1, connection };
        }
    }
}

/// Whether a reply says that the connection is of no more use. The redis crate reopens a broken connection, but neither
/// one that was refused (a wrong password, too many clients), nor one to a server that has become a replica.
fn is_lost(answer: &RedisResult<Vec<Value>>) -> bool {
    match answer {
        Err(error) => !error.is_io_error(),
        Ok(answers) => answers.iter().filter_map(error_in).any(|error| {
            matches!(RedisError::from(error).code(), Some("READONLY" | "MASTERDOWN" | "NOAUTH" | "WRONGPASS"))
        }),
    }
}

fn connect(info: &ConnectionInfo) -> RedisResult<ConnectionManager> {
    // One attempt for each command without a connection. Callers decide when to try again.
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(0)
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(None);
    ConnectionManager::new_lazy_with_config(Client::open(info.clone())?, config)
}
