//! What the steps need of this machine: Debian's packages, each with the reason and how to see that it is there.

use std::process::Command;

use super::steps::{Kind, Step};

/// A package, its reason, and the words of a shell's command that fails where it is missing.
type Need = (&'static str, &'static str, &'static str);

const PYTHON: Need = (
    "python3-venv",
    "the tests with redis-py, and what judges other clients",
    "python3 -c 'import venv, ensurepip'",
);
const NETWORKS: [Need; 2] = [
    ("nftables", "networks that lose packets", "has_in_sbin nft"),
    ("iproute2", "networks of a test's own", "has_in_sbin ip"),
];
const GO: Need =
    ("golang-go", "the tests with go-redis, and the checker of histories with Porcupine", "command -v go");

/// What a client and its package need.
fn of_client(name: &str) -> &'static [Need] {
    match name {
        "node" => &[
            ("nodejs", "the tests with ioredis and node-redis", "command -v node"),
            ("npm", "the tests with ioredis and node-redis", "command -v npm"),
        ],
        "go" => &[GO],
        "java" => &[
            ("default-jdk-headless", "the tests with Jedis, Lettuce and Redisson", "command -v javac"),
            ("maven", "the tests with Jedis, Lettuce and Redisson", "command -v mvn"),
        ],
        "php" => &[
            ("php-cli", "the tests with phpredis", "command -v php"),
            ("php-redis", "the tests with phpredis", "php -r 'exit((int) !extension_loaded(\"redis\"));'"),
            ("composer", "the tests with phpredis", "command -v composer"),
        ],
        "ruby" => &[
            ("ruby", "the tests with redis-rb", "command -v ruby"),
            ("ruby-redis", "the tests with redis-rb", "ruby -e 'require \"redis\"'"),
        ],
        _ => &[],
    }
}

/// What its programs on the pages need beside.
fn of_programs(name: &str) -> &'static [Need] {
    match name {
        "php" => &[
            ("php-symfony-lock", "locks of Symfony", "has_php Symfony/Component/Lock"),
            ("php-illuminate-cache", "locks of Laravel", "has_php Illuminate/Cache"),
            ("php-illuminate-redis", "locks of Laravel", "has_php Illuminate/Redis"),
            ("php-illuminate-bus", "unique jobs of Laravel", "has_php Illuminate/Bus"),
            ("php-illuminate-container", "locks of Laravel", "has_php Illuminate/Container"),
        ],
        "ruby" => &[
            ("ruby-connection-pool", "the tests with redis-rb", "ruby -e 'require \"connection_pool\"'"),
            ("ruby-activejob", "a job of Rails", "ruby -e 'require \"active_job\"'"),
            ("ruby-sidekiq", "its workers", "command -v sidekiq"),
        ],
        _ => &[],
    }
}

fn of_step(step: &Step, is_short: bool) -> Vec<Need> {
    match &step.kind {
        Kind::Shellcheck => vec![("shellcheck", "the lints of the scripts", "command -v shellcheck")],
        Kind::Workflows => vec![("golang-go", "actionlint, the lints of the workflows", "command -v go")],
        Kind::Integration { .. } if !is_short => NETWORKS.to_vec(),
        Kind::Evidence => {
            let postgres = ("postgresql", "money between accounts", "compgen -G '/usr/lib/postgresql/*/bin'");
            [NETWORKS.to_vec(), vec![GO, postgres, PYTHON]].concat()
        }
        Kind::Client { name, .. } => [of_client(name), of_programs(name), &[PYTHON]].concat(),
        Kind::Conformance { package, .. } => [of_client(package), &[PYTHON]].concat(),
        _ => Vec::new(),
    }
}

/// The names of all packages that a step may ask for.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let clients = ["node", "go", "java", "php", "ruby"];
    let of_clients = clients.into_iter().flat_map(|name| [of_client(name), of_programs(name)].concat());
    let others = ["shellcheck", "postgresql", "nftables", "iproute2", "python3-venv"];
    of_clients.map(|(package, ..)| package).chain(others)
}

/// Installs what is missing, with the words of scripts/lib.sh.
pub(super) fn install(steps: &[Step], is_short: bool) -> Result<(), String> {
    let mut script = "set -euo pipefail\n. scripts/lib.sh\n\
        has_in_sbin() { command -v \"$1\" || command -v \"/usr/sbin/$1\"; }\n\
        has_php() { php -r \"exit((int) !stream_resolve_include_path('$1/autoload.php'));\"; }\n\
        command -v apt-get >/dev/null || exit 0\n"
        .to_owned();
    let mut seen = Vec::new();
    for need in steps.iter().flat_map(|step| of_step(step, is_short)) {
        let (package, reason, check) = need;
        if !seen.contains(&package) {
            seen.push(package);
            script.push_str(&format!("want {package} \"{reason}\" {check}\n"));
        }
    }
    script.push_str("install_wanted\n");
    match Command::new("bash").args(["-c", &script]).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("what the steps need is not there".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::steps::{rest, tests::tree};

    #[test]
    fn each_package_that_a_step_needs_is_among_the_names() {
        let names: Vec<&str> = names().collect();
        for step in rest(&tree()) {
            for (package, ..) in of_step(&step, false) {
                assert!(names.contains(&package), "{package}");
            }
        }
    }
}
