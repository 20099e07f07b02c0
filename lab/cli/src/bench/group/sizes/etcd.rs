//! An etcd at each node of a bed, and a client of its JSON over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use truechimer_outcome::outcome::Failure;
use truechimer_testbed::binary;
use truechimer_testbed::process::Process;

use crate::bench::group::bed::Bed;

/// Port for clients, and for the other members.
const PORT: u16 = 2379;
const PEERS: u16 = 2380;
/// Place of its log and its data: a file system in memory that each node has for itself, so that no disk is
/// in the figures.
const FOLDER: &str = "/dev/shm/etcd";
/// Three times the usual: on a machine that all nodes share, a leader that has to wait for a processor shall
/// stay the leader.
const ELECTION_MS: u32 = 3000;
/// Time that anything may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);
/// Largest answer.
const LARGEST: usize = 1 << 20;

/// Address of a node in its ring.
pub fn address(node: u32, port: u16) -> SocketAddr {
    let last = u8::try_from(node).unwrap_or(u8::MAX);
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, last), port))
}

/// Finds etcd.
///
/// # Errors
/// Where it is not there, with what to do.
pub fn program() -> Result<std::path::PathBuf, Failure> {
    let path = binary::system("etcd");
    if path.is_file() {
        return Ok(path);
    }
    let mend = "install etcd-server (scripts/bench sizes unpacks it), or leave it out (--alone)";
    Err(Failure(format!("there is no etcd: {mend}")))
}

/// Starts one at each node, on these processors. Not until they have a leader.
///
/// # Errors
/// Where there is no etcd.
pub fn up(bed: &Bed, processors: Option<&str>) -> Result<Vec<Process>, Failure> {
    let etcd = program()?;
    let url = |node, port| format!("http://{}", address(node, port));
    let nodes: Vec<u32> = bed.ring().nodes().collect();
    let all: Vec<String> =
        nodes.iter().map(|node| format!("node{node}={}", url(*node, PEERS))).collect();
    let start = |node: u32| {
        let mut command = match processors {
            Some(list) => {
                let mut command = bed.command(node, Path::new("taskset"));
                command.args(["--cpu-list", list]).arg(&etcd);
                command
            }
            None => bed.command(node, &etcd),
        };
        command.args(["--name", &format!("node{node}"), "--data-dir", FOLDER]);
        let (peers, clients) = (url(node, PEERS), url(node, PORT));
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        command.args(["--initial-cluster", &all.join(","), "--initial-cluster-state", "new"]);
        command.args(["--election-timeout", &ELECTION_MS.to_string(), "--logger", "zap"]);
        Process::start(command, &bed.ring().dir().join(&format!("etcd{node}.log")))
    };
    Ok(nodes.into_iter().map(start).collect())
}

/// A connection to one.
#[derive(Debug)]
pub struct Etcd {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Etcd {
    /// Connects to that of a node, as soon as it is there.
    ///
    /// # Errors
    /// Where it does not come.
    pub fn connect(node: u32) -> Result<Etcd, Failure> {
        let address = address(node, PORT);
        Ok(Etcd { stream: BufReader::new(connect(address, "etcd")?), address })
    }

    /// Asks it for something.
    ///
    /// # Errors
    /// Where it does not answer, or refuses.
    pub fn post(&mut self, path: &str, body: &Value) -> Result<Value, Failure> {
        let (status, answer) = self.answer(path, body).map_err(|why| self.failed(path, &why))?;
        if status != 200 {
            return Err(self.failed(path, &format_args!("{status}: {answer}")));
        }
        Ok(answer)
    }

    fn failed(&self, path: &str, why: &dyn std::fmt::Display) -> Failure {
        Failure(format!("etcd, http://{}{path}: {why}", self.address))
    }

    fn answer(&mut self, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        read_answer(&mut self.stream)
    }

    /// A write that a majority has in its log, and its number in the order of all.
    ///
    /// # Errors
    /// Where etcd fails.
    pub fn put(&mut self, key: &str, value: &str) -> Result<i64, Failure> {
        let answer = self.post("/v3/kv/put", &json!({ "key": key, "value": value }))?;
        number(&answer, "/header/revision")
            .ok_or_else(|| self.failed("/v3/kv/put", &format_args!("no revision in {answer}")))
    }

    /// A value; of this etcd alone, without asking a majority, if so wanted. Empty if there is none.
    ///
    /// # Errors
    /// Where etcd fails.
    pub fn get(&mut self, key: &str, alone: bool) -> Result<String, Failure> {
        let answer = self.post("/v3/kv/range", &json!({ "key": key, "serializable": alone }))?;
        let value = answer.pointer("/kvs/0/value").and_then(Value::as_str);
        Ok(value.unwrap_or_default().to_owned())
    }

    /// The member's own number and its leader's, in words; none where it has none.
    fn standing(&mut self) -> Result<(String, Option<String>), Failure> {
        let path = "/v3/maintenance/status";
        let answer = self.post(path, &json!({}))?;
        let word = |pointer| answer.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let own = word("/header/member_id");
        let own = own.ok_or_else(|| self.failed(path, &format_args!("no number in {answer}")))?;
        Ok((own, word("/leader")))
    }
}

/// Makes a node's etcd the leader of all, as soon as they are there.
///
/// # Errors
/// Where they do not come, or it does not become that.
pub fn lead(node: u32, nodes: u32) -> Result<(), Failure> {
    let mut all = (1..=nodes).map(Etcd::connect).collect::<Result<Vec<_>, _>>()?;
    let end = Instant::now() + PATIENCE;
    loop {
        // One that has not heard of the others yet may refuse.
        let standings: Vec<_> = all.iter_mut().map(|one| one.standing().ok()).collect();
        let wanted = standings.get(node as usize - 1).cloned().flatten();
        let leads = |it: &&Option<(String, Option<String>)>| {
            it.as_ref().is_some_and(|(own, leader)| Some(own) == leader.as_ref())
        };
        if let Some((own, Some(leader))) = wanted {
            if own == leader && standings.iter().filter(leads).count() == 1 {
                return Ok(());
            }
            let of = |it: &Option<(String, Option<String>)>| {
                it.as_ref().is_some_and(|(own, _)| *own == leader)
            };
            if let Some(leader) = standings.iter().position(of).and_then(|at| all.get_mut(at)) {
                let wanted = json!({ "targetID": own });
                let _ = leader.post("/v3/maintenance/transfer-leadership", &wanted);
            }
        }
        if Instant::now() > end {
            return Err(Failure(format!("node {node}'s etcd does not become the leader")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Connects, as soon as somebody listens there.
///
/// # Errors
/// Where nobody does in a minute.
pub fn connect(address: SocketAddr, who: &str) -> Result<TcpStream, Failure> {
    let failed = |why| Failure::of(format_args!("{who} at {address}"), why);
    let stream = patiently(|| TcpStream::connect(address)).map_err(failed)?;
    stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(failed)?;
    Ok(stream)
}

/// Asks again while it fails, for a minute: where nobody listens yet, or a busy machine's etcd has no leader.
///
/// # Errors
/// The last one.
pub fn patiently<T, E>(mut ask: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            last => return last,
        }
    }
}

/// Numbers of 64 bits are texts in this JSON.
fn number(answer: &Value, pointer: &str) -> Option<i64> {
    answer.pointer(pointer)?.as_str()?.parse().ok()
}

/// The status and the JSON of an answer that says its length, as etcd's do.
fn read_answer(from: &mut impl BufRead) -> std::io::Result<(u16, Value)> {
    let wrong = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    let mut line = String::new();
    let mut head = (None, None);
    loop {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        }
        match text.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                head.1 = value.trim().parse().ok().filter(|length| *length <= LARGEST);
            }
            _ if head.0.is_none() => {
                head.0 = text.split(' ').nth(1).and_then(|status| status.parse().ok());
            }
            _ => {}
        }
    }
    let (Some(status), Some(length)) = head else { return Err(wrong("no status, or no length")) };
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok((status, serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_their_length_and_broken_ones_refused() {
        let two = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 33\r\n\r\n\
                   {\"header\":{\"revision\":\"12\"}}     HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\n{}";
        let mut from = two.as_bytes();
        let (status, answer) = read_answer(&mut from).unwrap();
        assert_eq!((status, number(&answer, "/header/revision")), (200, Some(12)));
        assert_eq!(read_answer(&mut from).unwrap(), (503, json!({})));
        for broken in [
            "",
            "HTTP/1.1 200 OK\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}",
            "x\r\nContent-Length: 2\r\n\r\n{}",
        ] {
            assert!(read_answer(&mut broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn nodes_have_the_addresses_of_their_ring() {
        assert_eq!(address(9, PORT).to_string(), "192.0.2.9:2379");
    }
}
