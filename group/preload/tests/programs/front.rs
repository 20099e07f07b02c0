//! The time of delivery, and what a front learns of its program. The front here is the test.

use std::ffi::CString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::time::Duration;

use truechimer_group_client::delivery::{CLOCK, Page, Taken};

use crate::stage::{Stage, run, said, until, wait};

/// 2030-01-01, and some ns.
const TIME: i64 = 1_893_456_000_123_456_789;

pub struct Front {
    pub stage: Stage,
    pub page: Page,
    path: std::path::PathBuf,
}

impl Front {
    fn new() -> Front {
        Front::with(CLOCK)
    }

    /// With these flags in its page.
    pub fn with(flags: u64) -> Front {
        let stage = Stage::new(0);
        let path = stage.folder.join("1.front");
        let name = CString::new(path.to_str().expect("text")).expect("no zeros");
        let page = Page::create(&name, flags).expect("a page");
        Front { stage, page, path }
    }

    pub fn command(&self, program: impl AsRef<std::path::Path>) -> Command {
        let mut command = self.stage.plain(program);
        command.env("TRUECHIMER_GROUP_READS", "delivery");
        command.env("TRUECHIMER_GROUP_FRONT", &self.path);
        command
    }

    /// A connection, as a front makes it.
    pub fn connect(&self, to: SocketAddr) -> (TcpStream, u16) {
        // The port is known before the program can accept.
        let port = free_port();
        self.page.begin(port);
        (connect_from(port, to), port)
    }

    pub fn is_done(&self, port: u16, bytes: u64) -> bool {
        let taken = self.page.taken(port);
        taken.accepted && taken.bytes == bytes && self.page.busy() == 0
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("bound").port()
}

fn connect_from(port: u16, to: SocketAddr) -> TcpStream {
    let SocketAddr::V4(to) = to else { panic!("IPv4 here") };
    let address = |port: u16, ip: Ipv4Addr| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(ip).to_be() },
        sin_zero: [0; 8],
    };
    let (own, to) = (address(port, Ipv4Addr::LOCALHOST), address(to.port(), *to.ip()));
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: addresses of that length, and a descriptor that is handed over whole.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0);
        assert_eq!(libc::bind(fd, (&raw const own).cast(), length), 0, "a free port");
        assert_eq!(libc::connect(fd, (&raw const to).cast(), length), 0);
        std::os::fd::FromRawFd::from_raw_fd(fd)
    }
}

/// A server that says its port on its first line.
pub fn port_of(child: &mut Child) -> SocketAddr {
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("asked for");
    BufReader::with_capacity(1, output).read_line(&mut line).expect("a line");
    (Ipv4Addr::LOCALHOST, line.trim().parse().expect("a port")).into()
}

pub fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

const THREADS: &str = "
import socket, socketserver, threading, time
class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        while True:
            request = self.request.recv(100)
            if not request: break
            answers = [time.time_ns()]
            time.sleep(60 if request == b'sleep\\n' else 0.02)
            answers.append(time.time_ns())
            if request == b'wait\\n': gate.wait()
            self.request.sendall(('%d %d\\n' % tuple(answers)).encode())
gate = threading.Event()
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
with Server(('127.0.0.1', 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever(poll_interval=60)
";

#[test]
fn time_stands_while_a_request_is_processed() {
    if Command::new("python3").arg("-c").arg("").status().is_err() {
        println!("not here: python3");
        return;
    }
    let front = Front::new();
    front.page.set_time(TIME);
    let mut child = front.command("python3").args(["-c", THREADS]).spawn().expect("it starts");
    let address = port_of(&mut child);
    // Where python3 is a script, there were others before it.
    assert!(front.page.programs() >= 1);
    assert_eq!(front.page.process(), u64::from(child.id()));
    until("it waits", || front.page.busy() == 0);
    let (mut stream, port) = front.connect(address);
    until("it accepts", || front.is_done(port, 0));
    let mut answers = BufReader::new(stream.try_clone().expect("a copy"));
    let mut line = String::new();
    for (nth, request) in ["a\n", "bc\n", "d\n"].into_iter().enumerate() {
        let now = TIME + nth as i64 * 1_000;
        front.page.set_time(now);
        let before = front.page.taken(port).bytes;
        let settles = front.page.settles();
        stream.write_all(request.as_bytes()).expect("it reads");
        until("it has dealt with it", || front.is_done(port, before + request.len() as u64));
        assert_ne!(front.page.settles(), settles);
        // Done means that the answer is on its way already.
        line.clear();
        answers.read_line(&mut line).expect("an answer");
        assert_eq!(line, format!("{now} {now}\n"));
    }
    // While one request is being processed, another is not said to be done.
    let (mut other, other_port) = front.connect(address);
    until("it accepts", || front.is_done(other_port, 0));
    // A thread that waits for another does not work: it may wait for what nobody has asked yet.
    other.write_all(b"wait\n").expect("it reads");
    until("it waits for another", || front.is_done(other_port, 5));
    assert!(front.page.handed() > 0 && front.page.processes().is_some_and(|all| !all.is_empty()));
    let (mut sleeper, its_port) = front.connect(address);
    until("it accepts", || front.is_done(its_port, 0));
    sleeper.write_all(b"sleep\n").expect("it reads");
    until("it has taken it", || front.page.taken(its_port).bytes == 6);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(front.page.busy(), 1);
    drop(answers);
    drop(stream);
    until("it sees the end", || front.page.taken(port).ended && front.page.taken(port).closed);
    end(child);
}

#[test]
fn children_of_a_server_are_counted() {
    let source = r#"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void serve(int s) {
    char c[64], a[64]; struct epoll_event e = { .events = EPOLLIN };
    int p = epoll_create1(0), copy = dup(s);
    fcntl(copy, F_SETFL, O_NONBLOCK);
    close(s);
    epoll_ctl(p, EPOLL_CTL_ADD, copy, &e);
    for (;;) {
        struct epoll_event got; ssize_t n;
        if (epoll_wait(p, &got, 1, 0) == 0) epoll_wait(p, &got, 1, -1);
        if (recv(copy, c, 1, MSG_PEEK) == 0) break;
        struct iovec v = { c, sizeof c };
        while ((n = readv(copy, &v, 1)) > 0) {
            int length = snprintf(a, sizeof a, "%ld %.*s", (long)time(0), (int)n, c);
            if (write(copy, a, length) != length) return;
        }
        if (n == 0) break;
    }
    close(copy);
}
int main(void) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof at;
    int l = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(l, (void *)&at, sizeof at) || listen(l, 9)) return 1;
    getsockname(l, (void *)&at, &length);
    printf("%d\n", ntohs(at.sin_port)); fflush(stdout);
    for (;;) {
        int s = accept(l, 0, 0);
        if (!fork()) { close(l); serve(s); _exit(0); }
        close(s);
        while (waitpid(-1, 0, WNOHANG) > 0) {}
    }
}
"#;
    let front = Front::new();
    front.page.set_time(TIME);
    let Some(program) = front.stage.compiled(source, &[]) else { return };
    let mut child = front.command(program).spawn().expect("it starts");
    let address = port_of(&mut child);
    let mut streams = Vec::new();
    for _ in 0..3 {
        let (stream, port) = front.connect(address);
        until("it accepts", || front.is_done(port, 0));
        streams.push((stream, port));
    }
    for (stream, port) in &mut streams {
        stream.write_all(b"x").expect("it reads");
        until("it has dealt with it", || front.is_done(*port, 1));
        let expected = format!("{} x", TIME / 1_000_000_000);
        let mut answer = vec![0; expected.len()];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(String::from_utf8(answer).expect("text"), expected);
        stream.shutdown(std::net::Shutdown::Write).expect("open");
        let all = Taken {
            bytes: 1,
            accepted: true,
            ended: true,
            closed: true,
            looped: false,
            by_looper: false,
        };
        // The end that is only looked at is told by the closing.
        until("it closes", || Taken { ended: true, ..front.page.taken(*port) } == all);
        until("it is done", || front.page.busy() == 0);
    }
    end(child);
}

#[test]
fn before_the_first_message_there_is_no_time() {
    let front = Front::new();
    let child = front.command("date").args(["+%s"]).spawn().expect("it starts");
    until("it has attached", || front.page.programs() == 1);
    std::thread::sleep(Duration::from_millis(40));
    front.page.set_time(TIME);
    let output = wait(child);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), (TIME / 1_000_000_000).to_string());

    let other = Front::new();
    let output = run(other.command("date").env("TRUECHIMER_GROUP_PATIENCE", "30"));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(75), 0));
    // Where there is no page, and no front is waited for.
    let nowhere = other.stage.folder.join("no.front");
    let mut command = other.command("date");
    command.env("TRUECHIMER_GROUP_FRONT", nowhere).env("TRUECHIMER_GROUP_OUTSIDE", "exit");
    let output = run(&mut command);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(75), 0));
    // And where the front that runs is of another release: waiting would be in vain.
    let version = 9_u32.to_ne_bytes();
    let file = std::fs::OpenOptions::new().write(true).open(&other.path).expect("its page");
    std::os::unix::fs::FileExt::write_all_at(&file, &version, 8).expect("a version");
    let output = run(&mut other.command("date"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(75), 0), "{told}");
    assert!(told.contains("its front speaks version 9 of the page"), "{told}");
    assert!(told.contains("use one release of both"), "{told}");
}

#[test]
fn waits_take_as_long_as_they_should() {
    let front = Front::new();
    front.page.set_time(TIME);
    let source = "#include <time.h>\nint main(void) {\n\
        struct timespec t; clock_gettime(CLOCK_REALTIME, &t); t.tv_nsec += 20000000;\n\
        return clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, 0); }";
    let Some(program) = front.stage.compiled(source, &[]) else { return };
    // Years ahead, it comes back all the same.
    assert_eq!(said(&mut front.command(program)), "");
}
