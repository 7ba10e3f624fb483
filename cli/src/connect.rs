//! The address of the server, and connections to it: one server, the primary that sentinels name, or the nodes of a cluster.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use redis::cluster::{ClusterClient, ClusterConnection};
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    Client, ClientTlsConfig, Connection, ConnectionAddr, ConnectionInfo, FromRedisValue, IntoConnectionInfo,
    ProtocolVersion, RedisError, RedisResult, TlsCertificates, TlsMode,
};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, UNREACHABLE, USAGE};
use crate::options::Place;

const DEFAULT: &str = "redis://localhost:6379";
/// How long to wait for a server's answer before it counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait for one answer of a node while connecting to a cluster: if it does not answer, the next node is asked.
const NODE_PATIENCE: Duration = Duration::from_secs(1);

/// The address of the server, and the user. It contains the password, so it must not be printed.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Target {
    urls: Vec<String>,
    cluster: bool,
    sentinel: Option<String>,
    user: Option<String>,
    password: Option<String>,
    tls: Option<Tls>,
    /// Whether `urls` come from REDIS_URL.
    of_environment: bool,
}

/// The TLS settings, in PEM. The files are read only once, since the guard needs the same contents even if the files have been replaced.
#[derive(Clone, Deserialize, Serialize)]
struct Tls {
    ca: Option<String>,
    /// The client's certificate and its private key.
    client: Option<(String, String)>,
    insecure: bool,
}

impl Tls {
    /// TLS options as in redis-cli, except that each of them switches TLS on.
    fn new(place: &Place) -> Result<Option<Self>, Failure> {
        let read = |file: &Path| {
            fs::read_to_string(file)
                .map_err(|error| Failure::new(USAGE, format!("can't read {}: {error}", file.display())))
        };
        let client = match (&place.cert, &place.key) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            _ => None,
        };
        let ca = place.cacert.as_deref().map(read).transpose()?;
        let wanted = place.tls || place.insecure || ca.is_some() || client.is_some();
        Ok(wanted.then_some(Self { ca, client, insecure: place.insecure }))
    }

    fn certificates(&self) -> TlsCertificates {
        TlsCertificates {
            client_tls: self.client.clone().map(|(cert, key)| ClientTlsConfig {
                client_cert: cert.into_bytes(),
                client_key: key.into_bytes(),
            }),
            root_cert: self.ca.clone().map(String::into_bytes),
        }
    }

    fn mode(&self) -> TlsMode {
        if self.insecure { TlsMode::Insecure } else { TlsMode::Secure }
    }

    /// Returns the same address, with TLS.
    fn over(&self, info: ConnectionInfo) -> RedisResult<ConnectionInfo> {
        let (host, port, insecure) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host.clone(), *port, false),
            ConnectionAddr::TcpTls { host, port, insecure, .. } => (host.clone(), *port, *insecure),
            _ => return Err((redis::ErrorKind::InvalidClientConfig, "TLS needs a host, not a socket").into()),
        };
        let insecure = insecure || self.insecure;
        let info = info.set_addr(ConnectionAddr::TcpTls { host, port, insecure, tls_params: None });
        Ok(Client::build_with_tls(info, self.certificates())?.get_connection_info().clone())
    }
}

/// One server, and a connection to it.
pub(crate) struct Node {
    /// How to connect to it.
    info: ConnectionInfo,
    pub(crate) address: String,
    pub(crate) connection: Connection,
    /// Whether it is one of several nodes of a cluster that are all asked.
    pub(crate) is_asked_with_others: bool,
}

/// A primary of a cluster that can't be asked: its address, and why.
pub(crate) type Down = (String, Failure);

/// A connection for any key: to one server, or to a cluster.
pub(crate) enum Link {
    One(Box<Connection>),
    Cluster(Box<ClusterConnection>),
}

impl Link {
    pub(crate) fn ask<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> RedisResult<T> {
        match self {
            Self::One(connection) => command.query(&mut **connection),
            Self::Cluster(connection) => command.query(&mut **connection),
        }
    }
}

impl Target {
    pub(crate) fn new(place: &Place) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::new(USAGE, why);
        let from_environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let urls: Vec<String> = place
            .url
            .clone()
            .or_else(|| from_environment("REDIS_URL"))
            .unwrap_or_else(|| DEFAULT.to_owned())
            .split(',')
            .map(|url| url.trim().to_owned())
            .collect();
        let mut target = Self {
            urls,
            cluster: place.cluster,
            sentinel: place.sentinel.clone(),
            user: None,
            password: None,
            tls: Tls::new(place)?,
            of_environment: place.url.is_none(),
        };
        for info in target.infos()? {
            if place.url.is_some() && info.redis_settings().password().is_some() {
                return Err(wrong("a password in --url is seen by everyone who says ps: use REDIS_URL, REDISLOCK_PASSWORD or --password-file".to_owned()));
            }
        }
        target.user = place.user.clone().or_else(|| from_environment("REDISLOCK_USER"));
        target.password = match &place.password_file {
            Some(file) => {
                let text = fs::read_to_string(file).map_err(|error| {
                    wrong(format!("can't read the password from {}: {error}", file.display()))
                })?;
                Some(text.lines().next().unwrap_or_default().to_owned())
            }
            None => from_environment("REDISLOCK_PASSWORD"),
        };
        if target.urls.len() > 1 && !target.cluster && target.sentinel.is_none() {
            return Err(wrong(
                "several URLs are nodes of a cluster or sentinels: say --cluster, or --sentinel NAME"
                    .to_owned(),
            ));
        }
        if target.sentinel.is_some()
            && target.tls.as_ref().is_some_and(|tls| tls.insecure && tls.client.is_some())
        {
            return Err(wrong("--insecure with --cert is not possible with --sentinel".to_owned()));
        }
        // rustls needs a process-wide provider of cryptography. It is no error if another part of the process has installed one.
        drop(rustls::crypto::ring::default_provider().install_default());
        Ok(target)
    }

    /// All URLs, with the user, the password and the protocol.
    fn infos(&self) -> Result<Vec<ConnectionInfo>, Failure> {
        self.urls.iter().map(|url| self.info(url)).collect()
    }

    fn info(&self, url: &str) -> Result<ConnectionInfo, Failure> {
        let info = url.into_connection_info().map_err(|error| {
            // An invalid URL is not shown: nobody knows which part of it is the password.
            let name = if self.of_environment { "REDIS_URL" } else { "--url" };
            Failure::new(USAGE, format!("{name} is no URL of a server: {error}; such as {DEFAULT}"))
        })?;
        let mut settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        if settings.username().is_none()
            && let Some(user) = &self.user
        {
            settings = settings.set_username(user);
        }
        if settings.password().is_none()
            && let Some(password) = &self.password
        {
            settings = settings.set_password(password);
        }
        let info = info.set_redis_settings(settings);
        match &self.tls {
            Some(tls) => {
                tls.over(info).map_err(|error| Failure::new(USAGE, format!("can't use TLS: {error}")))
            }
            None => Ok(info),
        }
    }

    /// REDIS_URL without passwords, for the environment of the command; `None` if the URLs do not come from there.
    pub(crate) fn environment_without_password(&self) -> Option<String> {
        let url = || self.urls.iter().map(|url| without_password(url)).collect::<Vec<_>>().join(",");
        (self.of_environment && std::env::var_os("REDIS_URL").is_some()).then(url)
    }

    /// The address for messages, without the password.
    pub(crate) fn address(&self) -> String {
        let urls: Vec<String> = self.urls.iter().map(|url| without_password(url)).collect();
        match &self.sentinel {
            Some(name) => format!("{name} of {}", urls.join(", ")),
            None => urls.join(", "),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.cluster
    }

    fn failed(&self, error: &RedisError) -> Failure {
        Failure::of(error, "connecting", &self.address())
    }

    fn first(&self) -> Result<ConnectionInfo, Failure> {
        let mut infos = self.infos()?;
        if infos.is_empty() {
            return Err(Failure::new(USAGE, "a URL is wanted"));
        }
        Ok(infos.swap_remove(0))
    }

    fn client(info: ConnectionInfo) -> RedisResult<Client> {
        Client::open(info)
    }

    fn sentinels(&self, name: &str) -> Result<SentinelClient, Failure> {
        let infos = self.infos()?;
        let settings = self.first()?.redis_settings().clone();
        let addresses: Vec<ConnectionAddr> = infos.iter().map(|info| info.addr().clone()).collect();
        let mode = match &self.tls {
            Some(tls) => Some(tls.mode()),
            None => addresses.iter().find_map(|address| match address {
                ConnectionAddr::TcpTls { insecure: true, .. } => Some(TlsMode::Insecure),
                ConnectionAddr::TcpTls { .. } => Some(TlsMode::Secure),
                _ => None,
            }),
        };
        let build = || {
            let mut builder = SentinelClientBuilder::new(addresses, name, SentinelServerType::Master)?
                .set_client_to_redis_db(settings.db());
            if let Some(user) = settings.username() {
                builder = builder.set_client_to_redis_username(user);
            }
            if let Some(password) = settings.password() {
                builder = builder.set_client_to_redis_password(password);
            }
            if let Some(mode) = mode {
                builder = builder.set_client_to_redis_tls_mode(mode);
            }
            if let Some(tls) = &self.tls {
                builder = builder.set_client_to_redis_certificates(tls.certificates());
            }
            builder.set_client_to_redis_protocol(ProtocolVersion::RESP3).build()
        };
        build().map_err(|error| self.failed(&error))
    }

    fn cluster(&self) -> Result<ClusterClient, Failure> {
        let mut builder = ClusterClient::builder(self.infos()?)
            .use_protocol(ProtocolVersion::RESP3)
            .connection_timeout(NODE_PATIENCE);
        if let Some(tls) = &self.tls {
            builder = builder.tls(tls.mode()).certs(tls.certificates());
        }
        builder.build().map_err(|error| self.failed(&error))
    }

    /// The servers, for the package `redislock`.
    pub(crate) fn servers(&self) -> Result<redislock::Servers, Failure> {
        if self.cluster {
            let nodes: RedisResult<Vec<Client>> = self.infos()?.into_iter().map(Self::client).collect();
            return Ok(redislock::Servers::cluster(nodes.map_err(|error| self.failed(&error))?));
        }
        match &self.sentinel {
            Some(name) => Ok(self.sentinels(name)?.into()),
            None => Ok(Self::client(self.first()?).map_err(|error| self.failed(&error))?.into()),
        }
    }

    /// A connection for any key.
    pub(crate) fn link(&self) -> Result<Link, Failure> {
        if self.cluster {
            let cluster = self.cluster()?;
            let connection = in_time(move || {
                let connection = cluster.get_connection()?;
                connection.set_read_timeout(Some(PATIENCE))?;
                Ok(connection)
            });
            return Ok(Link::Cluster(Box::new(connection.map_err(|error| self.failed(&error))?)));
        }
        Ok(Link::One(Box::new(self.primary()?)))
    }

    fn primary(&self) -> Result<Connection, Failure> {
        let connected = match &self.sentinel {
            Some(name) => {
                let mut sentinels = self.sentinels(name)?;
                in_time(move || open(&sentinels.get_client()?))
            }
            None => connect(self.first()?),
        };
        connected.map_err(|error| self.failed(&error))
    }

    /// All servers that have locks: the primaries of a cluster, or the one server. Of a cluster, some may be down.
    pub(crate) fn nodes(&self) -> Result<(Vec<Node>, Vec<Down>), Failure> {
        let mut first = self.primary_or_any()?;
        if !self.cluster {
            let (info, address) = (self.first()?, self.address());
            return Ok((
                vec![Node { info, address, connection: first, is_asked_with_others: false }],
                Vec::new(),
            ));
        }
        let list: String =
            redis::cmd("CLUSTER").arg("NODES").query(&mut first).map_err(|error| self.failed(&error))?;
        let seed = self.first()?;
        let (mut nodes, mut down) = (Vec::new(), Vec::new());
        for (host, port, failed) in list.lines().filter_map(primary_address) {
            let host = if host.is_empty() { host_of(&seed) } else { host };
            let address = format!("{host}:{port}");
            if failed {
                let why = format!("{address}: this primary has failed, as its cluster says");
                down.push((address, Failure::new(UNREACHABLE, why)));
                continue;
            }
            match Node::of(&seed, &host, port).map_err(|error| Failure::of(&error, "connecting", &address)) {
                Ok(node) => nodes.push(node),
                Err(failure) if failure.code == UNREACHABLE.0 => down.push((address, failure)),
                Err(failure) => return Err(failure),
            }
        }
        Ok((nodes, down))
    }

    /// A connection to the primary; in a cluster, to the first node that can be reached.
    fn primary_or_any(&self) -> Result<Connection, Failure> {
        if !self.cluster {
            return self.primary();
        }
        let mut failed = None;
        for info in self.infos()? {
            match connect(info) {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = Some(self.failed(&error)),
            }
        }
        Err(failed.unwrap_or_else(|| Failure::new(USAGE, "a URL is wanted")))
    }
}

impl Node {
    /// Connects to this address, with the user and the TLS settings of `seed`.
    fn of(seed: &ConnectionInfo, host: &str, port: u16) -> RedisResult<Self> {
        let address = match seed.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        let info = seed.clone().set_addr(address);
        let connection = connect(info.clone())?;
        Ok(Self { info, address: format!("{host}:{port}"), connection, is_asked_with_others: true })
    }

    /// Connects to another server, with the settings of this connection.
    pub(crate) fn other(&self, host: &str, port: u16) -> RedisResult<Self> {
        Self::of(&self.info, host, port)
    }

    /// Whether the server is a node of a cluster. The reply to HELLO says so, for which no user needs a right.
    pub(crate) fn is_of_cluster(&mut self) -> bool {
        let reply: RedisResult<HashMap<String, redis::Value>> =
            redis::cmd("HELLO").query(&mut self.connection);
        let is = |mode: &redis::Value| matches!(mode, redis::Value::BulkString(mode) if mode == b"cluster");
        reply.is_ok_and(|reply| reply.get("mode").is_some_and(is))
    }

    /// Sends a command. `tried` is the part of a failure's message that says what was tried.
    pub(crate) fn ask<T: FromRedisValue>(&mut self, command: &redis::Cmd, tried: &str) -> Result<T, Failure> {
        command.query(&mut self.connection).map_err(|error| Failure::of(&error, tried, &self.address))
    }
}

fn connect(info: ConnectionInfo) -> RedisResult<Connection> {
    in_time(move || open(&Client::open(info)?))
}

fn open(client: &Client) -> RedisResult<Connection> {
    let connection = client.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// Connects, or gives up after `PATIENCE`. The timeout of redis-rs counts anew for each address of the host and each answer of the server.
fn in_time<C: Send + 'static>(connect: impl FnOnce() -> RedisResult<C> + Send + 'static) -> RedisResult<C> {
    let (tell, connected) = channel();
    thread::spawn(move || tell.send(connect()));
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    connected.recv_timeout(PATIENCE).map_err(late)?
}

/// Reads a line of CLUSTER NODES: `ID HOST:PORT@BUS[,NAME] FLAGS PRIMARY PING PONG EPOCH LINK SLOT...`. Returns `None` if the node is no
/// primary; otherwise its host and port, and whether it has failed while it has slots (without slots, another node has replaced it).
fn primary_address(line: &str) -> Option<(String, u16, bool)> {
    let mut words = line.split(' ').skip(1);
    let (address, flags) = (words.next()?, words.next()?);
    let has = |flag: &str| flags.split(',').any(|word| word == flag);
    let failed = has("fail") || has("noaddr");
    if !has("master") || failed && words.nth(5).is_none_or(|slots| slots.starts_with('[')) {
        return None;
    }
    let (host, port) = address.split('@').next()?.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?, failed))
}

fn host_of(info: &ConnectionInfo) -> String {
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => "127.0.0.1".to_owned(),
    }
}

/// Turns `redis://user:password@host` into `redis://user@host`, and removes `pass=` from the query of `unix://`.
fn without_password(url: &str) -> String {
    if url.starts_with("unix:") || url.starts_with("redis+unix:") {
        let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
        let kept: Vec<&str> = query.split('&').filter(|part| !part.starts_with("pass=")).collect();
        return [path, &kept.join("&")].join("?").trim_end_matches('?').to_owned();
    }
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, rest)), Some((_, host))) => {
            let user = rest.split(['@', ':']).next().unwrap_or_default();
            format!("{scheme}://{user}{}{host}", if user.is_empty() { "" } else { "@" })
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("redis://localhost:6379", "redis://localhost:6379"),
            ("redis://:secret@host:1", "redis://host:1"),
            ("rediss://me:secret@host:1/2", "rediss://me@host:1/2"),
            ("redis://me:se@cret@host:1", "redis://me@host:1"),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
            ("unix:///run/redis.sock?pass=se@cret", "unix:///run/redis.sock"),
            ("unix:///run/redis.sock?db=1&pass=secret&user=me", "unix:///run/redis.sock?db=1&user=me"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn primaries_are_read_from_the_nodes_of_a_cluster() {
        let line = |address: &str, flags: &str| {
            format!("07c37df {address} {flags} - 0 1426238317239 4 connected 0-1")
        };
        let read = |address, flags| primary_address(&line(address, flags));
        assert_eq!(
            read("127.0.0.1:30001@31001,name", "myself,master"),
            Some(("127.0.0.1".to_owned(), 30001, false))
        );
        assert_eq!(read("[::1]:7000@17000", "master"), Some(("::1".to_owned(), 7000, false)));
        assert_eq!(read("127.0.0.1:30001@31001", "slave"), None);
        assert_eq!(read("127.0.0.1:30001@31001", "master,fail"), Some(("127.0.0.1".to_owned(), 30001, true)));
        assert_eq!(
            primary_address("07c37df 127.0.0.1:1@2 master,fail - 0 1426238317239 4 disconnected"),
            None
        );
        assert_eq!(primary_address(""), None);
    }
}
