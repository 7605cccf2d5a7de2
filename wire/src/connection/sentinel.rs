//! Sentinels, which tell the address of the master they watch.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value, from_redis_value_ref};
use tokio::{task::JoinSet, time::timeout};

use super::{
    address::{Address, Endpoint, servers},
    node::{Commands, Node},
};

/// The longest time for the answer of one sentinel, and of the master to `ROLE`.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// The port of a sentinel whose address has none.
const PORT: u16 = 26_379;
/// Begins the error when no sentinel tells a master.
pub(super) const NO_MASTER: &str = "no sentinel tells the master";

/// A URL of sentinels and their master.
pub(super) struct SentinelUrl {
    /// The name under which they know the master.
    name: String,
    sentinels: Vec<Endpoint>,
    /// Settings of a connection to the master, except for its address.
    master: Endpoint,
}

/// The sentinels of a master.
pub(super) struct Sentinels {
    url: SentinelUrl,
    nodes: Vec<Arc<Node>>,
}

// === impl SentinelUrl ===

impl SentinelUrl {
    /// The sentinels that `url` names, `redis+sentinel://user:password@host:port,host:port/name/database`; `None` if it
    /// is a URL of another form. User and password are those of the master. `sentinel_username` and
    /// `sentinel_password` in the query are those of the sentinels.
    pub(super) fn parse(url: &str) -> RedisResult<Option<Self>> {
        let Some((scheme, rest)) = url.split_once("+sentinel://") else { return Ok(None) };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (name, database) = path.split_once('/').unwrap_or((path, "0"));
        if name.is_empty() || name.contains(['%', ' ']) {
            let form = "write redis+sentinel://host:port,host:port/name".to_owned();
            return Err(RedisError::from((ErrorKind::InvalidClientConfig, "no name of a master", form)));
        }
        let (user, hosts) = authority.rfind('@').map_or(("", authority), |at| authority.split_at(at + 1));
        let parameters = || query.split('&').filter(|parameter| !parameter.is_empty());
        let of_sentinels = |key: &str| {
            let value = parameters().find_map(|parameter| parameter.strip_prefix(key)?.strip_prefix('='));
            value.unwrap_or_default()
        };
        let of_both: Vec<&str> =
            parameters().filter(|parameter| !parameter.starts_with("sentinel_")).collect();
        let query = of_both.join("&");
        let sign_in = match (of_sentinels("sentinel_username"), of_sentinels("sentinel_password")) {
            (_, "") => String::new(),
            (username, password) => format!("{username}:{password}@"),
        };
        let hosts: Vec<String> = hosts.split(',').map(with_port).collect();
        let master = format!("{scheme}://{user}{}/{database}?{query}", hosts[0]);
        let sentinels = format!("{scheme}://{sign_in}{}/?{query}", hosts.join(","));
        Ok(Some(Self {
            name: name.to_owned(),
            sentinels: servers(&sentinels)?,
            master: servers(&master)?.remove(0),
        }))
    }
}

// === impl Sentinels ===

impl Sentinels {
    /// The sentinels of `url`. The first question connects.
    pub(super) fn open(url: SentinelUrl) -> Self {
        let nodes = url.sentinels.iter().map(|endpoint| Arc::new(Node::new(endpoint.clone())));
        Self { nodes: nodes.collect(), url }
    }

    /// Settings of a connection to the master, at another address.
    pub(super) fn master(&self) -> &Endpoint {
        &self.url.master
    }

    /// The address of the master, as most sentinels tell it. If they differ, the last failover counts.
    ///
    /// # Errors
    /// When no sentinel answers, or none knows the master.
    pub(super) async fn address(&self) -> RedisResult<Address> {
        let mut asked: JoinSet<_> =
            self.nodes.iter().map(|node| told(node.clone(), self.url.name.clone())).collect();
        let (mut answers, mut reasons, mut unknown) = (Vec::new(), Vec::new(), 0);
        // More than half of them know of a failover before it counts. The others may be cut off.
        while answers.len() <= self.nodes.len() / 2
            && let Some(answer) = asked.join_next().await
        {
            match answer.unwrap_or_else(|error| Err(io::Error::other(error).into())) {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    unknown += usize::from(error.to_string().contains("No such master"));
                    reasons.push(error.to_string());
                }
            }
        }
        if let Some((_, address)) = answers.into_iter().max_by_key(|(epoch, _)| *epoch) {
            return Ok(address);
        }
        if unknown > 0 {
            let name = format!("none knows one named {:?}", self.url.name);
            return Err(RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, NO_MASTER, name)));
        }
        reasons.sort();
        reasons.dedup();
        Err(RedisError::from((ErrorKind::Io, NO_MASTER, reasons.join("; "))))
    }
}

/// Asks `node`, a sentinel, for the master: the number of its last failover, and its address.
async fn told(node: Arc<Node>, name: String) -> RedisResult<(u64, Address)> {
    // During a failover, only the first of the two has the new address, and only the second has its number.
    let mut commands = Pipeline::new();
    commands
        .cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(&name)
        .cmd("SENTINEL")
        .arg("MASTER")
        .arg(&name);
    let place = node.address().map(ToString::to_string).unwrap_or_default();
    // The error names its sentinel.
    let error = |error: RedisError| RedisError::from(io::Error::other(format!("{place}: {error}")));
    let answers = ask(&node, Commands::Many(&commands, 0, 2)).await.map_err(error)?;
    let [address, master] = &answers[..] else { return Err(error(strange())) };
    let address: Option<(String, u16)> = address
        .clone()
        .extract_error()
        .and_then(|address| Ok(from_redis_value_ref(&address)?))
        .map_err(error)?;
    let fields = master.clone().extract_error().and_then(|master| Ok(from_redis_value_ref(&master)?));
    let Some((host, port)) = address else {
        return Err(error(fields.err().unwrap_or_else(strange)));
    };
    let fields: HashMap<String, String> = fields.unwrap_or_default();
    let epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    Ok((epoch.unwrap_or(0), Address::new(&host, port)))
}

fn strange() -> RedisError {
    RedisError::from((ErrorKind::Parse, "a sentinel's answer has no address of a master"))
}

/// Makes sure that the server of `node`, which the sentinels call the master, says so too.
///
/// # Errors
/// When it is a replica, or gives no answer.
pub(super) async fn verify(node: &Node) -> RedisResult<()> {
    let mut command = Cmd::new();
    command.arg("ROLE");
    let answer = ask(node, Commands::One(&command)).await?.pop().unwrap_or(Value::Nil).extract_error()?;
    let role: Vec<Value> = from_redis_value_ref(&answer)?;
    let role: String = role.first().map(from_redis_value_ref).transpose()?.unwrap_or_default();
    if role == "master" {
        return Ok(());
    }
    let place = node.address().map(ToString::to_string).unwrap_or_default();
    let detail = format!("{place}, which the sentinels call the master, is a replica");
    Err(redis::make_extension_error("READONLY".to_owned(), Some(detail)))
}

async fn ask(node: &Node, commands: Commands<'_>) -> RedisResult<Vec<Value>> {
    let late = || RedisError::from((ErrorKind::Io, "no answer", format!("within {ANSWER_WITHIN:?}")));
    timeout(ANSWER_WITHIN, node.ask(commands)).await.unwrap_or_else(|_| Err(late()))
}

fn with_port(host: &str) -> String {
    // The colons of an IPv6 address are in brackets.
    let has_port = host.rsplit(']').next().unwrap_or_default().contains(':');
    if has_port { host.to_owned() } else { format!("{host}:{PORT}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_sentinels_a_master_and_two_passwords() {
        let url =
            "redis+sentinel://u:p@10.0.0.1,[::1]:7001,host/my.master/3?sentinel_password=s%40s&protocol=3";
        let parsed = SentinelUrl::parse(url).unwrap().unwrap();
        assert_eq!(parsed.name, "my.master");
        let sentinels: Vec<String> =
            parsed.sentinels.iter().map(|one| one.address().unwrap().to_string()).collect();
        assert_eq!(sentinels, ["10.0.0.1:26379", "::1:7001", "host:26379"]);
        let signs_in = |one: &Endpoint| {
            let settings = one.info().redis_settings();
            (settings.username().map(str::to_owned), settings.password().map(str::to_owned), settings.db())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(signs_in(&parsed.master), (text("u"), text("p"), 3));
        for info in &parsed.sentinels {
            assert_eq!(signs_in(info), (None, text("s@s"), 0));
        }
        assert!(SentinelUrl::parse("redis://a,b").unwrap().is_none());
        for wrong in
            ["redis+sentinel://a,b", "redis+sentinel://a/", "redis+sentinel://a/m/x", "http+sentinel://a/m"]
        {
            assert!(SentinelUrl::parse(wrong).is_err(), "{wrong}");
        }
    }
}
