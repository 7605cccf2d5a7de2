//! One server, and the connection to it.

use std::sync::{PoisonError, RwLock};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, RedisConnectionInfo, RedisError, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};

use super::{
    address::{Address, Endpoint},
    redirect::error_in,
    socket::open,
};

/// A server, with one pipelined connection that all callers share.
pub(crate) struct Node {
    endpoint: Endpoint,
    address: Option<Address>,
    current: RwLock<Current>,
}

/// The present connection.
#[derive(Clone)]
struct Current {
    /// Number of connections before this one.
    number: u64,
    /// Opened by the first command. All commands that come meanwhile share the attempt.
    connection: Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>>,
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
    /// The server at `endpoint`. The first command connects to it.
    pub(super) fn new(endpoint: Endpoint) -> Self {
        let current = RwLock::new(Current { number: 0, connection: connect(&endpoint) });
        Self { address: endpoint.address(), endpoint, current }
    }

    /// Settings of the connection.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Address of the server; `None` on a unix socket.
    pub(crate) fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    pub(super) fn db(&self) -> i64 {
        self.endpoint.info().redis_settings().db()
    }

    /// Sends commands and returns the replies.
    pub(super) async fn ask(&self, commands: Commands<'_>) -> RedisResult<Vec<Value>> {
        let Current { number, connection } =
            self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = match (connection.await, commands) {
            (Ok(mut connection), Commands::One(command)) => {
                connection.req_packed_command(command).await.map(|answer| vec![answer])
            }
            (Ok(mut connection), Commands::Many(commands, offset, count)) => {
                connection.req_packed_commands(commands, offset, count).await
            }
            (Err(error), _) => Err(error),
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
        if current.number == number {
            *current = Current { number: number + 1, connection: connect(&self.endpoint) };
        }
    }
}

/// Whether a reply says that the connection is of no more use. It is broken, or was refused (a wrong password, too many
/// clients), or the server has become a replica.
fn is_lost(answer: &RedisResult<Vec<Value>>) -> bool {
    match answer {
        Err(_) => true,
        Ok(answers) => answers.iter().filter_map(error_in).any(|error| {
            matches!(RedisError::from(error).code(), Some("READONLY" | "MASTERDOWN" | "NOAUTH" | "WRONGPASS"))
        }),
    }
}

/// One attempt for each command without a connection. Callers decide when to try again.
fn connect(endpoint: &Endpoint) -> Shared<BoxFuture<'static, RedisResult<MultiplexedConnection>>> {
    let endpoint = endpoint.clone();
    let attempt = async move {
        let (reader, writer) = open(&endpoint).await?;
        let settings = endpoint.info().redis_settings();
        // Signed in already.
        let settings =
            RedisConnectionInfo::default().set_protocol(settings.protocol()).set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let stream = tokio::io::join(reader, writer);
        let (connection, driver) = MultiplexedConnection::new_with_config(&settings, stream, config).await?;
        tokio::spawn(driver);
        Ok(connection)
    };
    // A task of its own: the first caller may leave before the attempt ends.
    let spawned = async move {
        let ended = tokio::spawn(attempt).await;
        ended.unwrap_or_else(|_| Err(RedisError::from((ErrorKind::Io, "the runtime has ended"))))
    };
    spawned.boxed().shared()
}
